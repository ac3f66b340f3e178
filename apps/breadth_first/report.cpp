#include "report.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/library.hpp"

namespace breadth_first {
namespace {

const Outcome* synchronous(const std::vector<Outcome>& outcomes) {
  const auto found = std::ranges::find(outcomes, apps::gpu::Form::sync, &Outcome::form);
  return found == outcomes.end() ? nullptr : &*found;
}

double gain(const Outcome& outcome, const Outcome& sync) {
  return 100 * (1 - outcome.search_seconds / sync.search_seconds);
}

void print_json(const Options& options, const std::vector<Outcome>& outcomes, int processes) {
  nlohmann::ordered_json json{{"program", "breadth_first"},
                              {"library", apps::library()},
                              {"processes", processes},
                              {"vertices", options.graph.vertices()},
                              {"edges", options.graph.edges()},
                              {"correct", std::ranges::all_of(outcomes, &Outcome::correct)},
                              {"forms", nlohmann::ordered_json::array()}};
  const Outcome* const sync = synchronous(outcomes);
  for (const Outcome& outcome : outcomes) {
    nlohmann::ordered_json form{{"form", apps::gpu::name_of(outcome.form)},
                                {"step_seconds", outcome.search_seconds},
                                {"edges_a_second", outcome.edges_a_second},
                                {"levels", outcome.levels},
                                {"reached", outcome.reached},
                                {"wrong", outcome.wrong},
                                {"correct", outcome.correct()}};
    if (sync && sync != &outcome) form["gain_percent"] = gain(outcome, *sync);
    json["forms"].push_back(form);
  }
  std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace

void print_setting(const Options& options, const Grid& grid, const apps::Member& member) {
  if (!member.speaks() || options.json) return;
  std::printf("breadth_first: a Kronecker graph with %d vertices and %ld edges\n", options.graph.vertices(),
              options.graph.edges());
  std::printf("  library      %s\n", apps::library().c_str());
  std::printf("  processes    %d in %d rows and %d columns, %s\n", member.size, grid.rows, grid.columns,
              options.how.place == apps::gpu::Place::gpu ? "on GPUs" : "on the host");
  std::fflush(stdout);
}

void print_outcomes(const Options& options, const std::vector<Outcome>& outcomes,
                    const apps::Member& member) {
  if (!member.speaks()) return;
  if (options.json) {
    print_json(options, outcomes, member.size);
    std::fflush(stdout);
    return;
  }
  const Outcome* const sync = synchronous(outcomes);
  for (const Outcome& outcome : outcomes) {
    std::printf("  %-12s %ld vertices reached by %d searches, %ld not on the level of a serial search: %s\n",
                apps::gpu::name_of(outcome.form).c_str(), outcome.reached, options.roots, outcome.wrong,
                outcome.correct() ? "correct" : "WRONG");
    std::printf("  %-12s %.1f us a search of %.1f levels (median of %d), %.1f million edges a second", "",
                1e6 * outcome.search_seconds, outcome.levels, options.repeats, 1e-6 * outcome.edges_a_second);
    if (sync && sync != &outcome) std::printf(", %+.1f %% gained on sync", gain(outcome, *sync));
    std::printf("\n");
  }
  std::fflush(stdout);
}

}  // namespace breadth_first
