#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace isthmus::launch {

/// The connection to a PMI-1 or PMI-2 launcher, which a process has inherited. What comes may be split over
/// reads in any way. Errors are sentences for the user.
class LauncherSocket {
 public:
  using Milliseconds = std::chrono::milliseconds;
  static constexpr Milliseconds for_ever{-1};
  /// For answers that a launcher gives by itself, without waiting for other processes.
  static constexpr Milliseconds patience{60'000};
  /// The longest message that is believed to be one.
  static constexpr std::size_t longest_message = 1U << 16;

  explicit LauncherSocket(UniqueFd fd) noexcept : fd_(std::move(fd)) {}

  Result<> send(std::string_view text);
  /// One line, without its end.
  Result<std::string> read_line(Milliseconds within = for_ever);
  /// `bytes` bytes, at most `longest_message`.
  Result<std::string> read(std::size_t bytes, Milliseconds within = for_ever);
  /// Waits until the launcher has closed the connection, whatever it may say before.
  void wait_for_close(Milliseconds within) noexcept;
  void close() noexcept { fd_.reset(); }

 private:
  Result<> read_more(Milliseconds within);

  UniqueFd fd_;
  std::string received_;
};

/// Sends `request`, with which the launcher ends the job, gives it some seconds to end this process too, and
/// exits with `code`.
[[noreturn]] void end_job(LauncherSocket& socket, std::string_view request, int code) noexcept;

}  // namespace isthmus::launch
