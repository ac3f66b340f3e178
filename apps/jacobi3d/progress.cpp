#include "progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

namespace jacobi {
namespace {

// Seconds from one showing to the next.
constexpr double bar_interval = 0.1;
constexpr double line_interval = 1.0;
constexpr int bar_width = 24;

ProgressStyle settle(ProgressStyle style, bool speaks) {
  if (!speaks) return ProgressStyle::none;
  if (style != ProgressStyle::automatic) return style;
  return isatty(STDOUT_FILENO) != 0 ? ProgressStyle::bar : ProgressStyle::lines;
}

}  // namespace

Progress::Progress(ProgressStyle style, bool speaks, double tolerance, int limit, double rate)
    : style_(settle(style, speaks)), tolerance_(tolerance), limit_(limit), rate_(rate) {}

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
  if (style_ == ProgressStyle::none) return;
  const int end = std::max(1, expected_end(iteration, residual));
  const double interval = style_ == ProgressStyle::bar ? bar_interval : line_interval;
  if (iteration == 0 || (shown_at_ >= 0 && seconds - shown_at_ < interval)) return;
  shown_at_ = seconds;
  const double each = seconds / iteration;
  const double left = each * (end - iteration);
  if (style_ == ProgressStyle::lines) {
    std::printf("  iteration %6d of about %6d   residual %.2e   %8.3f ms each   %6.1f s to go\n", iteration,
                end, residual, 1e3 * each, left);
  } else {
    const int filled = static_cast<int>(static_cast<long>(bar_width) * std::min(iteration, end) / end);
    const std::string bar = std::string(static_cast<std::size_t>(filled), '#') +
                            std::string(static_cast<std::size_t>(bar_width - filled), '.');
    std::printf("\r\033[K  [%s] %d/%d  residual %.1e  %.3f ms each  %.0f s to go", bar.c_str(), iteration,
                end, residual, 1e3 * each, left);
    line_open_ = true;
  }
  std::fflush(stdout);
}

void Progress::finish() {
  if (line_open_) std::printf("\r\033[K");
  line_open_ = false;
  std::fflush(stdout);
}

}  // namespace jacobi
