#include "options.hpp"

#include <CLI/CLI.hpp>
#include <string>

#include "work.hpp"

namespace breadth_first {

std::variant<Options, apps::Refusal> read_command_line(int argc, char** argv, int processes) {
  Options options;
  CLI::App app(
      "Breadth-first searches of a Kronecker graph, with processes in rows and columns; the level of each "
      "vertex "
      "must be that of a serial search.\nExit status: 0 correct, 1 wrong, 2 bad arguments.",
      "breadth_first");
  using apps::gpu::Form;
  apps::gpu::add_form_options(app, options.how, {Form::sync, Form::stream, Form::kernel});
  app.add_option("--scale", options.graph.scale, "2^N vertices (16)")
      ->check(CLI::Range(8, 26))
      ->option_text("N");
  app.add_option("--edge-factor", options.graph.edge_factor, "Edges for each vertex (16)")
      ->check(CLI::Range(1, 64))
      ->option_text("N");
  app.add_option("--roots", options.roots, "Searches, each from another vertex (4)")
      ->check(CLI::Range(1, 1000))
      ->option_text("N");
  app.add_option("--repeats", options.repeats, "How often each is done for the time (5)")
      ->check(CLI::Range(1, 100000))
      ->option_text("N");
  app.add_option(
         "--ahead", options.ahead,
         "Levels that are enqueued before the host looks whether anything is left (2): --form stream, "
         "and kernel where kernels do not reach all processes, so that these cannot ask each other")
      ->check(CLI::Range(1, 64))
      ->option_text("N");
  app.add_flag("--json", options.json, "The result as one JSON object");
  if (auto refusal = apps::parse(app, argc, argv)) return *refusal;
  const Grid grid = share_out(options.graph, 0, processes);
  if (grid.columns > most_peers)
    return apps::Refusal::bad(std::to_string(processes) + " processes in " + std::to_string(grid.rows) +
                              " rows: a row has at most 16; take a number with nearer factors");
  if (processes > options.graph.vertices() / word_bits)
    return apps::Refusal::bad("--scale " + std::to_string(options.graph.scale) + ": too few vertices for " +
                              std::to_string(processes) + " processes");
  if (const std::string problem = apps::gpu::reconcile(options.how); !problem.empty())
    return apps::Refusal::bad(problem);
  return options;
}

}  // namespace breadth_first
