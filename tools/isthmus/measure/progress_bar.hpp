#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace isthmus::tool {

/// A bar on stderr, where that is a terminal: how far a list of jobs has come, what it does, and how long it
/// will take yet. Says nothing where stderr is no terminal.
class ProgressBar {
 public:
  explicit ProgressBar(std::size_t jobs);
  ~ProgressBar() { hide(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// The next job begins.
  void begin_job(const std::string& what);
  /// Takes the bar away, so that something else can be printed; the next job shows it again.
  void hide() noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  /// "[####      ]  12 of 50, about 8 s left: WHAT", not longer than `columns`.
  [[nodiscard]] std::string line(const std::string& what, std::size_t columns) const;

  std::size_t jobs_;
  std::size_t begun_ = 0;
  Clock::time_point start_ = Clock::now();
  bool terminal_;
  bool shown_ = false;
};

}  // namespace isthmus::tool
