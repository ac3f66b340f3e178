// How far the solver is from its tolerance.
#pragma once

#include "common/progress.hpp"

namespace jacobi {

class Progress {
 public:
  // `rate`: how much ln(residual) falls per iteration in theory. Only the process with `speaks` prints.
  Progress(apps::ProgressStyle style, bool speaks, double tolerance, int limit, double rate);

  // After an iteration whose residual is known; seconds since the first.
  void update(int iteration, double residual, double seconds);
  void finish() { shown_.finish(); }

 private:
  [[nodiscard]] int expected_end(int iteration, double residual);

  apps::Progress shown_;
  double tolerance_;
  int limit_;
  double rate_;
  int last_iteration_ = 0;
  double last_residual_ = 0;
};

}  // namespace jacobi
