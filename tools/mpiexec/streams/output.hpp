#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "command/options.hpp"
#include "streams/attendant.hpp"

namespace isthmus::mpiexec {

/// Where lines end up: mpiexec's own stdout or stderr. Never blocks, so that mpiexec can answer signals while
/// a reader is slow (`| less`), and leaves the descriptor's flags alone, which it shares with other
/// processes.
class Sink {
 public:
  explicit Sink(int fd);

  void append(std::string_view text);
  void write();  ///< as much as the reader takes now
  void give_up();

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool has_pending() const noexcept { return !pending_.empty(); }
  [[nodiscard]] bool full() const noexcept;
  [[nodiscard]] bool broken() const noexcept { return broken_; }  ///< nobody reads any more
  /// When the reader last took something of what it has to; nothing where there is no more for it, and at a
  /// terminal, which a person may have stopped in order to read.
  [[nodiscard]] std::optional<Clock::time_point> last_taken() const;

 private:
  int fd_;
  std::size_t chunk_;  ///< what a write takes without blocking once poll has said that it may begin
  bool is_terminal_;
  bool broken_ = false;
  std::string pending_;
  Clock::time_point moved_ = Clock::now();
  int unread_ = 0;  ///< of what has been written: bytes still in the pipe
};

/// The ranks' output on its way through mpiexec, and mpiexec's own messages, which go the same way so that
/// they come after what the ranks have written before.
class Output {
 public:
  Output(OutputMode mode, std::uint32_t ranks);
  ~Output();
  Output(const Output&) = delete;

  /// Descriptors that a rank shall have as stdout and stderr, empty where it inherits mpiexec's. An errno on
  /// failure.
  struct RankEnds {
    UniqueFd out, err;
  };
  /// `count`: ranks from `rank` on that are one process, and write there together.
  std::expected<RankEnds, int> open(std::uint32_t rank, std::uint32_t count = 1);

  /// One line to stderr: "mpiexec: TEXT".
  void message(std::string_view text);
  /// The same without a prefix and with as many lines as `text` has.
  void print_error(std::string_view text);

  /// What to wait for, and what to do when something of it has happened.
  void prepare(std::vector<pollfd>& waited_for) const;
  void react();
  /// When `react` is due even if nothing happens: a rank has begun a line and not ended it for a while, or a
  /// reader's time is up.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;

  /// Takes in what ranks have written so far, as far as there is room for it: whoever prints faster than the
  /// reader reads holds up nothing but itself.
  void drain();
  /// The job has failed: from now on a reader that takes nothing for `patience` is given up, and `says_so` to
  /// the user.
  void hurry(bool says_so);
  /// The ranks have ended: what they have written so far is the last that is passed on.
  void close_intake();
  [[nodiscard]] bool has_pending() const;
  static constexpr auto patience = std::chrono::milliseconds(1500);

 private:
  struct Stream;
  struct Lane;  ///< a sink and the streams that lead to it
  [[nodiscard]] Lane& lane_of_stderr() { return *lanes_.back(); }
  std::expected<UniqueFd, int> open_stream(Lane& lane, const std::string& ranks, bool is_stderr) const;
  [[nodiscard]] std::optional<Clock::time_point> end_of_patience(const Lane& lane) const;
  void lose(Lane& lane);

  bool tagged_;
  std::vector<std::unique_ptr<Lane>> lanes_;  ///< stdout, stderr; one where both are the same file
  std::array<bool, 2> piped_{};               ///< whether stdout and stderr go through mpiexec
  std::optional<Clock::time_point> hurried_;  ///< since when
  bool says_so_ = true;
  bool intake_closed_ = false;
};

}  // namespace isthmus::mpiexec
