#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cstdio>
#include <string>

namespace multigrid {
namespace {

bool parse_boxes(const std::string& text, Triple& boxes) {
  int used = 0;
  return std::sscanf(text.c_str(), "%3dx%3dx%3d%n", &boxes[0], &boxes[1], &boxes[2], &used) == 3 &&
         static_cast<std::size_t>(used) == text.size() &&
         std::ranges::all_of(boxes, [](int extent) { return extent > 0; });
}

}  // namespace

std::variant<Options, apps::Refusal> read_command_line(int argc, char** argv, int) {
  Options options;
  std::string boxes;
  CLI::App app(
      "Solves alpha u - Laplace(u) = f by geometric multigrid on finite volumes, with as many V-cycles as "
      "said, and holds the answer against the exact one.\nExit status: 0 correct, 1 wrong, 2 bad arguments.",
      "multigrid");
  using apps::gpu::Form;
  apps::gpu::add_form_options(app, options.how, {Form::sync, Form::stream, Form::graph, Form::kernel});
  app.add_option("--box", options.box, "Cells along an edge of a box, a power of two (16)")
      ->check(CLI::Range(2, 512))
      ->option_text("N");
  app.add_option("--boxes", boxes, "Boxes of each process along x, y and z (2x2x2)")->option_text("AxBxC");
  app.add_option("--alpha", options.alpha, "0: Poisson's equation (default); more: Helmholtz's")
      ->check(CLI::Range(0.0, 1e9))
      ->option_text("X");
  app.add_option("--sweeps", options.sweeps,
                 "Red-black Gauss-Seidel sweeps on each level, before and after the coarser ones (2)")
      ->check(CLI::Range(1, 100))
      ->option_text("N");
  app.add_option("--bottom-sweeps", options.bottom_sweeps, "The same on the coarsest level (24)")
      ->check(CLI::Range(1, 10000))
      ->option_text("N");
  app.add_option("--cycles", options.cycles, "V-cycles of a solution, an even number (20)")
      ->check(CLI::Range(2, 100000))
      ->option_text("N");
  app.add_option("--repeats", options.repeats, "Solutions of which the time is measured (5)")
      ->check(CLI::Range(1, 100000))
      ->option_text("N");
  app.add_flag("--json", options.json, "The result as one JSON object");
  if (auto refusal = apps::parse(app, argc, argv)) return *refusal;
  if (!boxes.empty() && !parse_boxes(boxes, options.boxes))
    return apps::Refusal::bad("--boxes " + boxes + ": expected three numbers, as in 2x2x4");
  if (!std::has_single_bit(static_cast<unsigned>(options.box)))
    return apps::Refusal::bad("--box " + std::to_string(options.box) + ": expected a power of two, as 16");
  if (options.cycles % 2 != 0)
    return apps::Refusal::bad("--cycles " + std::to_string(options.cycles) + ": expected an even number");
  if (const std::string problem = apps::gpu::reconcile(options.how); !problem.empty())
    return apps::Refusal::bad(problem);
  return options;
}

}  // namespace multigrid
