#include "common/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace apps {
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

Progress::Progress(ProgressStyle style, std::string program, bool speaks, int iterations)
    : style_(settle(style, speaks)), iterations_(iterations), interruption_(std::move(program), speaks) {}

void Progress::expect(int iterations) {
  iterations_ = std::max(1, iterations);
  is_estimate_ = true;
}

void Progress::update(int done, double seconds, const std::string& detail) {
  const std::string all = (is_estimate_ ? "about " : "") + std::to_string(iterations_);
  interruption_.reached("after " + std::to_string(done) + " of " + all + " iterations");
  if (style_ == ProgressStyle::none || done == 0) return;
  const double interval = style_ == ProgressStyle::bar ? bar_interval : line_interval;
  if (seconds - shown_at_ < interval) return;
  shown_at_ = seconds;
  const double each = seconds / done;
  const double left = each * (iterations_ - done);
  if (style_ == ProgressStyle::lines) {
    std::printf("  iteration %4d of %4s   %s%s%10.3f ms each   %6.1f s to go\n", done, all.c_str(),
                detail.c_str(), detail.empty() ? "" : "   ", 1e3 * each, left);
  } else {
    const auto filled =
        static_cast<std::size_t>(static_cast<long>(bar_width) * std::min(done, iterations_) / iterations_);
    const std::string bar = std::string(filled, '#') + std::string(bar_width - filled, '.');
    std::printf("\r\033[K  [%s] %d/%d  %s%s%.3f ms each  %.0f s to go", bar.c_str(), done, iterations_,
                detail.c_str(), detail.empty() ? "" : "  ", 1e3 * each, left);
    line_open_ = true;
  }
  std::fflush(stdout);
}

void Progress::finish() {
  if (line_open_) std::printf("\r\033[K");
  line_open_ = false;
  std::fflush(stdout);
}

}  // namespace apps
