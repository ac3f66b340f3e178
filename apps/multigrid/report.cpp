#include "report.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/library.hpp"

namespace multigrid {
namespace {

const Outcome* synchronous(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes)
    if (outcome.form == apps::gpu::Form::sync) return &outcome;
  return nullptr;
}

double gain(const Outcome& outcome, const Outcome& sync) {
  return 100 * (1 - outcome.cycle_seconds / sync.cycle_seconds);
}

void print_json(const Options& options, const std::vector<Outcome>& outcomes, int levels, long exchanges,
                int processes) {
  nlohmann::ordered_json json{{"program", "multigrid"},   {"library", apps::library()},
                              {"processes", processes},   {"box", options.box},
                              {"boxes", options.boxes},   {"levels", levels},
                              {"cycles", options.cycles}, {"exchanges_of_cycle", exchanges},
                              {"correct", true},          {"forms", nlohmann::ordered_json::array()}};
  const Outcome* const sync = synchronous(outcomes);
  for (const Outcome& outcome : outcomes) {
    nlohmann::ordered_json form{{"form", apps::gpu::name_of(outcome.form)},
                                {"step_seconds", outcome.cycle_seconds},
                                {"residual", outcome.residual},
                                {"allowed", outcome.allowed},
                                {"error", outcome.error},
                                {"bound", outcome.bound},
                                {"same_bits", outcome.same_bits},
                                {"correct", outcome.correct()}};
    if (sync && sync != &outcome) form["gain_percent"] = gain(outcome, *sync);
    json["forms"].push_back(form);
    if (!outcome.correct()) json["correct"] = false;
  }
  std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace

void print_setting(const Options& options, const Division& division, int levels, long exchanges,
                   const apps::Member& member) {
  if (!member.speaks() || options.json) return;
  std::printf("multigrid: %s's equation on %d x %d x %d cells\n",
              options.alpha == 0 ? "Poisson" : "Helmholtz", division.extent(0), division.extent(1),
              division.extent(2));
  std::printf("  library      %s\n", apps::library().c_str());
  std::printf("  processes    %d as %d x %d x %d, each with %d boxes of %d^3 cells, %s\n", member.size,
              division.processes[0], division.processes[1], division.processes[2],
              division.boxes[0] * division.boxes[1] * division.boxes[2], division.n,
              options.how.place == apps::gpu::Place::gpu ? "on GPUs" : "on the host");
  std::printf("  V-cycle      %d levels, %ld exchanges\n", levels, exchanges);
  std::fflush(stdout);
}

void print_outcomes(const Options& options, const std::vector<Outcome>& outcomes, int levels, long exchanges,
                    const apps::Member& member) {
  if (!member.speaks()) return;
  if (options.json) {
    print_json(options, outcomes, levels, exchanges, member.size);
    std::fflush(stdout);
    return;
  }
  const Outcome* const sync = synchronous(outcomes);
  for (const Outcome& outcome : outcomes) {
    std::printf("  %-12s residual %.2e, allowed %.2e: %s\n", apps::gpu::name_of(outcome.form).c_str(),
                outcome.residual, outcome.allowed, outcome.residual <= outcome.allowed ? "correct" : "WRONG");
    std::printf("  %-12s error %.2e, allowed %.2e: %s\n", "", outcome.error, outcome.bound,
                outcome.error <= outcome.bound ? "correct" : "WRONG");
    if (!outcome.steady) std::printf("  %-12s not the same bits in each repeat: WRONG\n", "");
    if (sync && sync != &outcome)
      std::printf("  %-12s %s\n", "",
                  outcome.same_bits ? "the same bits as sync: correct" : "not the same bits as sync: WRONG");
    std::printf("  %-12s %.1f us a V-cycle (median of %d times %d)", "", 1e6 * outcome.cycle_seconds,
                options.repeats, options.cycles);
    if (sync && sync != &outcome) std::printf(", %+.1f %% gained on sync", gain(outcome, *sync));
    std::printf("\n");
  }
  std::fflush(stdout);
}

}  // namespace multigrid
