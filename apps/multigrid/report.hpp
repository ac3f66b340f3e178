// What multigrid prints.
#pragma once

#include <string>
#include <vector>

#include "common/gpu/form.hpp"
#include "common/member.hpp"
#include "options.hpp"

namespace multigrid {

// One form's result, the same on all processes.
struct Outcome {
  apps::gpu::Form form;
  double step_seconds = 0;  // of a V-cycle: the slowest process's, median of the repeats
  double residual = 0;      // max |f - A u| / max |f|
  double allowed = 0;       // what it may be after so many cycles
  double error = 0;         // max |u - exact| / max |exact|
  double bound = 0;         // what the error may be with this residual
  bool same_bits = true;    // as the synchronous form's
  bool steady = true;       // the same bits in each repeat

  [[nodiscard]] bool correct() const { return residual <= allowed && error <= bound && same_bits && steady; }
};

void print_setting(const Options& options, const Division& division, int levels, long exchanges,
                   const apps::Member& member);
void print_outcomes(const Options& options, const std::vector<Outcome>& outcomes, int levels, long exchanges,
                    const apps::Member& member);

}  // namespace multigrid
