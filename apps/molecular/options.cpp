#include "options.hpp"

#include <CLI/CLI.hpp>
#include <cmath>
#include <string>

#include "work.hpp"

namespace molecular {
namespace {

// With what is left of a cell for atoms that come and go.
bool holds_cells(int edge) {
  const double length = edge * lattice_edge;
  const double cells = std::floor(length / reach);
  const double atoms = 4 * std::pow(edge / cells, 3);
  return atoms * 1.4 <= capacity;
}

}  // namespace

std::variant<Options, apps::Refusal> read_command_line(int argc, char** argv, int) {
  Options options;
  CLI::App app(
      "Molecular dynamics of a copper crystal by an embedded-atom potential; the energy at rest must be the "
      "exact one, energy and momentum must be kept, and no atom lost.\nExit status: 0 correct, 1 wrong, 2 "
      "bad "
      "arguments.",
      "molecular");
  using apps::gpu::Form;
  apps::gpu::add_form_options(app, options.how, {Form::sync, Form::stream, Form::graph, Form::kernel});
  app.add_option("--edge", options.edge, "Edge of each process's box, in cubic cells of four atoms (8)")
      ->check(CLI::Range(3, 1000))
      ->option_text("N");
  app.add_option("--steps", options.steps, "Time steps of a run, an even number (100)")
      ->check(CLI::Range(2, 10'000'000))
      ->option_text("N");
  app.add_option("--repeats", options.repeats, "Runs of which the time is measured, one behind the other (3)")
      ->check(CLI::Range(1, 100000))
      ->option_text("N");
  app.add_option("--step", options.step, "A time step in femtoseconds (1)")
      ->check(CLI::Range(1e-3, 10.0))
      ->option_text("X");
  app.add_option("--temperature", options.temperature, "At the beginning, in kelvin (600)")
      ->check(CLI::Range(0.0, 3000.0))
      ->option_text("X");
  app.add_flag("--json", options.json, "The result as one JSON object");
  if (auto refusal = apps::parse(app, argc, argv)) return *refusal;
  if (!holds_cells(options.edge))
    return apps::Refusal::bad("--edge " + std::to_string(options.edge) +
                              ": its cells would have too many atoms; take 3, or 5 and more");
  if (options.steps % 2 != 0)
    return apps::Refusal::bad("--steps " + std::to_string(options.steps) + ": expected an even number");
  if (const std::string problem = apps::gpu::reconcile(options.how); !problem.empty())
    return apps::Refusal::bad(problem);
  return options;
}

}  // namespace molecular
