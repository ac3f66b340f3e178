#include "report.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/gpu/form_report.hpp"
#include "common/library.hpp"

namespace multigrid {
namespace {

void print_json(const Options& options, const std::vector<Outcome>& outcomes, int levels, long exchanges,
                int processes) {
  apps::gpu::print_json({{"program", "multigrid"},
                         {"library", apps::library()},
                         {"processes", processes},
                         {"box", options.box},
                         {"boxes", options.boxes},
                         {"levels", levels},
                         {"cycles", options.cycles},
                         {"exchanges_of_cycle", exchanges}},
                        outcomes, [](const Outcome& outcome) {
                          return nlohmann::ordered_json{{"residual", outcome.residual},
                                                        {"allowed", outcome.allowed},
                                                        {"error", outcome.error},
                                                        {"bound", outcome.bound},
                                                        {"same_bits", outcome.same_bits}};
                        });
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
              options.how.on_gpu() ? "on GPUs" : "on the host");
  std::printf("  V-cycle      %d levels, %ld exchanges\n", levels, exchanges);
  std::fflush(stdout);
}

void print_outcomes(const Options& options, const std::vector<Outcome>& outcomes, int levels, long exchanges,
                    const apps::Member& member) {
  if (!member.speaks()) return;
  if (options.json) {
    print_json(options, outcomes, levels, exchanges, member.size);
    return;
  }
  for (const Outcome& outcome : outcomes) {
    std::printf("  %-12s residual %.2e, allowed %.2e: %s\n", apps::gpu::name_of(outcome.form).c_str(),
                outcome.residual, outcome.allowed, outcome.residual <= outcome.allowed ? "correct" : "WRONG");
    std::printf("  %-12s error %.2e, allowed %.2e: %s\n", "", outcome.error, outcome.bound,
                outcome.error <= outcome.bound ? "correct" : "WRONG");
    if (!outcome.steady) std::printf("  %-12s not the same bits in each repeat: WRONG\n", "");
    apps::gpu::print_same_bits(outcome);
    std::printf("  %-12s %.1f us a V-cycle (median of %d times %d)", "", 1e6 * outcome.step_seconds,
                options.repeats, options.cycles);
    apps::gpu::print_gain(outcome, outcomes);
  }
  std::fflush(stdout);
}

}  // namespace multigrid
