#include "report.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/gpu/form_report.hpp"
#include "common/library.hpp"

namespace breadth_first {
namespace {

void print_json(const Options& options, const std::vector<Outcome>& outcomes, int processes) {
  apps::gpu::print_json({{"program", "breadth_first"},
                         {"library", apps::library()},
                         {"processes", processes},
                         {"vertices", options.graph.vertices()},
                         {"edges", options.graph.edges()}},
                        outcomes, [](const Outcome& outcome) {
                          return nlohmann::ordered_json{{"edges_a_second", outcome.edges_a_second},
                                                        {"levels", outcome.levels},
                                                        {"reached", outcome.reached},
                                                        {"wrong", outcome.wrong}};
                        });
}

}  // namespace

void print_setting(const Options& options, const Grid& grid, const apps::Member& member) {
  if (!member.speaks() || options.json) return;
  std::printf("breadth_first: a Kronecker graph with %d vertices and %ld edges\n", options.graph.vertices(),
              options.graph.edges());
  std::printf("  library      %s\n", apps::library().c_str());
  std::printf("  processes    %d in %d rows and %d columns, %s\n", member.size, grid.rows, grid.columns,
              options.how.on_gpu() ? "on GPUs" : "on the host");
  std::fflush(stdout);
}

void print_outcomes(const Options& options, const std::vector<Outcome>& outcomes,
                    const apps::Member& member) {
  if (!member.speaks()) return;
  if (options.json) {
    print_json(options, outcomes, member.size);
    return;
  }
  for (const Outcome& outcome : outcomes) {
    std::printf("  %-12s %ld vertices reached by %d searches, %ld not on the level of a serial search: %s\n",
                apps::gpu::name_of(outcome.form).c_str(), outcome.reached, options.roots, outcome.wrong,
                outcome.correct() ? "correct" : "WRONG");
    std::printf("  %-12s %.1f us a search of %.1f levels (median of %d), %.1f million edges a second", "",
                1e6 * outcome.step_seconds, outcome.levels, options.repeats, 1e-6 * outcome.edges_a_second);
    apps::gpu::print_gain(outcome, outcomes);
  }
  std::fflush(stdout);
}

}  // namespace breadth_first
