#include "report.hpp"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/gpu/form_report.hpp"
#include "common/library.hpp"

namespace molecular {
namespace {

const char* verdict(bool right) {
  return right ? "correct" : "WRONG";
}

void print_json(const Options& options, const Crystal& crystal, const std::vector<Outcome>& outcomes,
                int processes) {
  apps::gpu::print_json({{"program", "molecular"},
                         {"library", apps::library()},
                         {"processes", processes},
                         {"atoms", crystal.atoms()},
                         {"steps", options.steps},
                         {"exchanges_of_step", 6}},
                        outcomes, [](const Outcome& outcome) {
                          return nlohmann::ordered_json{{"rest_error", outcome.rest_error},
                                                        {"drift", outcome.drift()},
                                                        {"push", outcome.push()},
                                                        {"same_bits", outcome.same_bits}};
                        });
}

}  // namespace

double Outcome::drift() const {
  const double change = std::abs(end.energy() - begin.energy());
  return begin.kinetic > 0 ? change / begin.kinetic : change;
}

double Outcome::push() const {
  double square = 0;
  for (int axis = 0; axis < 3; ++axis)
    square += (end.momentum[axis] - begin.momentum[axis]) * (end.momentum[axis] - begin.momentum[axis]);
  const double mean = std::sqrt(2 * mass * begin.kinetic / static_cast<double>(begin.atoms));
  return begin.kinetic > 0 ? std::sqrt(square) / mean : std::sqrt(square);
}

bool Outcome::is_at_rest() const {
  return rest_error <= allowed_rest_error && begin.force <= allowed_force;
}

bool Outcome::keeps() const {
  return drift() <= allowed_drift && push() <= allowed_push && begin.atoms == end.atoms &&
         begin.numbers == end.numbers;
}

void print_setting(const Options& options, const Crystal& crystal, const apps::Member& member) {
  if (!member.speaks() || options.json) return;
  const Grid grid = crystal.grid();
  std::printf("molecular: %ld atoms of copper at %g K, steps of %g fs\n", crystal.atoms(),
              options.temperature, options.step);
  std::printf("  library      %s\n", apps::library().c_str());
  std::printf("  processes    %d as %d x %d x %d, each with %d x %d x %d cells, %s\n", member.size,
              crystal.processes[0], crystal.processes[1], crystal.processes[2], grid.cells[0], grid.cells[1],
              grid.cells[2], options.how.on_gpu() ? "on GPUs" : "on the host");
  std::fflush(stdout);
}

void print_outcomes(const Options& options, const Crystal& crystal, const std::vector<Outcome>& outcomes,
                    const apps::Member& member) {
  if (!member.speaks()) return;
  if (options.json) {
    print_json(options, crystal, outcomes, member.size);
    return;
  }
  for (const Outcome& outcome : outcomes) {
    std::printf("  %-12s at rest %.9f eV an atom, off by %.1e; forces up to %.1e: %s\n",
                apps::gpu::name_of(outcome.form).c_str(),
                outcome.begin.potential / static_cast<double>(outcome.begin.atoms), outcome.rest_error,
                outcome.begin.force, verdict(outcome.is_at_rest()));
    std::printf("  %-12s energy drifts by %.1e of what is kinetic, momentum by %.1e, %ld atoms: %s\n", "",
                outcome.drift(), outcome.push(), outcome.end.atoms, verdict(outcome.keeps()));
    apps::gpu::print_same_bits(outcome);
    std::printf("  %-12s %.1f us a step (median of %d times %d)", "", 1e6 * outcome.step_seconds,
                options.repeats, options.steps);
    apps::gpu::print_gain(outcome, outcomes);
  }
  std::fflush(stdout);
}

}  // namespace molecular
