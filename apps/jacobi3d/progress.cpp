#include "progress.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace jacobi {

Progress::Progress(apps::ProgressStyle style, bool speaks, double tolerance, int limit, double rate)
    : shown_(style, "jacobi3d", speaks, limit), tolerance_(tolerance), limit_(limit), rate_(rate) {}

int Progress::expected_end(int iteration, double residual) {
  // The rate measured since the last residual, smoothed into what theory said.
  if (last_residual_ > 0 && residual > 0 && iteration > last_iteration_) {
    const double measured = std::log(last_residual_ / residual) / (iteration - last_iteration_);
    if (measured > 0) rate_ = 0.8 * rate_ + 0.2 * measured;
  }
  last_iteration_ = iteration;
  last_residual_ = residual;
  if (tolerance_ <= 0) return limit_;
  const double left = residual > tolerance_ ? std::log(residual / tolerance_) / rate_ : 0;
  return static_cast<int>(std::min(static_cast<double>(limit_), iteration + std::ceil(left)));
}

void Progress::update(int iteration, double residual, double seconds) {
  shown_.expect(expected_end(iteration, residual));
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "residual %.2e", residual);
  shown_.update(iteration, seconds, text.data());
}

}  // namespace jacobi
