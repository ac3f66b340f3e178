// What breadth_first prints.
#pragma once

#include <vector>

#include "common/gpu/form.hpp"
#include "common/member.hpp"
#include "options.hpp"

namespace breadth_first {

// One form's result, the same on all processes.
struct Outcome {
  apps::gpu::Form form = apps::gpu::Form::sync;
  double step_seconds = 0;  // of a search: the slowest process's, mean of the roots, median of the repeats
  double edges_a_second = 0;
  double levels = 0;  // that a search goes through, the mean
  long wrong = 0;     // vertices
  long reached = 0;

  [[nodiscard]] bool correct() const { return wrong == 0 && reached > 0; }
};

void print_setting(const Options& options, const Grid& grid, const apps::Member& member);
void print_outcomes(const Options& options, const std::vector<Outcome>& outcomes, const apps::Member& member);

}  // namespace breadth_first
