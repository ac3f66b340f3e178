// What a person sees while the solver works.
#pragma once

#include "options.hpp"

namespace jacobi {

class Progress {
 public:
  // `rate`: how much ln(residual) falls per iteration in theory. Only the process with `speaks` prints.
  Progress(ProgressStyle style, bool speaks, double tolerance, int limit, double rate);

  // After an iteration whose residual is known; seconds since the first.
  void update(int iteration, double residual, double seconds);
  // Leaves the terminal's line clean.
  void finish();

 private:
  [[nodiscard]] int expected_end(int iteration, double residual);

  ProgressStyle style_;
  double tolerance_;
  int limit_;
  double rate_;
  int last_iteration_ = 0;
  double last_residual_ = 0;
  double shown_at_ = -1;
  bool line_open_ = false;
};

}  // namespace jacobi
