#include "measure/progress_bar.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace isthmus::tool {
namespace {

/// Less is no estimate.
constexpr std::size_t jobs_before_estimate = 3;

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string duration_text(std::chrono::duration<double> time) {
  const auto seconds = std::lround(time.count());
  return seconds >= 90 ? fmt::format("{} min", (seconds + 30) / 60) : fmt::format("{} s", seconds);
}

}  // namespace

ProgressBar::ProgressBar(std::size_t jobs) : jobs_(jobs), terminal_(::isatty(STDERR_FILENO) != 0) {}

std::string ProgressBar::line(const std::string& what, std::size_t columns) const {
  constexpr std::size_t width = 20;
  const std::size_t done = begun_ - 1;
  const std::size_t full = width * done / std::max<std::size_t>(jobs_, 1);
  std::string left;
  if (done >= jobs_before_estimate) {
    const std::chrono::duration<double> so_far = Clock::now() - start_;
    left = ", about " +
           duration_text(so_far * (static_cast<double>(jobs_ - done) / static_cast<double>(done))) + " left";
  }
  const std::string text =
      fmt::format("[{:#<{}}{:{}}] {} of {}{}: {}", "", full, "", width - full, begun_, jobs_, left, what);
  return text.substr(0, columns - 1);  // the last column would break the line
}

void ProgressBar::begin_job(const std::string& what) {
  begun_ = std::min(begun_ + 1, jobs_);
  if (!terminal_) return;
  fmt::print(stderr, "\r\033[K{}", line(what, terminal_columns()));
  std::fflush(stderr);
  shown_ = true;
}

void ProgressBar::hide() noexcept {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace isthmus::tool
