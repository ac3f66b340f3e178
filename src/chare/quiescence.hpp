#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "chare/record.hpp"

namespace isthmus::chare {

/// What a process has counted since the start. Plain bytes: it is sent.
struct WorkCount {
  std::uint64_t sent = 0;  ///< records of work that it has made
  std::uint64_t done = 0;  ///< that it has finished
  std::uint64_t kept = 0;  ///< that it has taken in, and that wait for a chare that is not there
};

/// Finds out, in process 0, when no work is left, by the four-counter method (Mattern, "Algorithms for
/// distributed termination detection", Distributed Computing 2, 1987): processes are asked in waves, each
/// answers when it has nothing to do. If all that had been made by the time of one wave had been taken in by
/// the time of the wave before, nothing was on its way between them. So a message that is late, however late,
/// is missing in the sum of the first wave.
class Quiescence {
 public:
  explicit Quiescence(std::uint32_t processes) : processes_(processes) {}

  void ask(const isthmus_chare_callback& callback) { asked_.push_back(callback); }
  /// The library itself asks.
  void ask_for_own() noexcept { own_ = true; }
  [[nodiscard]] bool take_own() noexcept { return std::exchange(own_, false); }
  /// Whether a wave is to be sent now; it has begun then.
  [[nodiscard]] bool begin_wave() noexcept {
    if ((asked_.empty() && !own_) || missing_ != 0) return false;
    missing_ = processes_;
    now_ = {};
    why_.clear();
    return true;
  }
  /// `why`: what the kept ones wait for. Whether this was the last answer of the wave.
  bool answer(const WorkCount& count, std::string_view why) {
    if (missing_ == 0) return false;
    now_.sent += count.sent;
    now_.done += count.done;
    now_.kept += count.kept;
    if (why_.empty()) why_ = why;
    if (--missing_ != 0) return false;
    is_quiet_ = before_.done + before_.kept == now_.sent && has_before_;
    before_ = now_;
    has_before_ = true;
    return true;
  }
  /// After the last answer: whether nothing moves any more.
  [[nodiscard]] bool is_quiet() const noexcept { return is_quiet_; }
  /// Where nothing moves any more, and something waits for what will never come: what. Else empty.
  [[nodiscard]] const std::string& stuck() const noexcept { return why_; }
  /// Those who have asked, when it is quiet. The next question begins anew.
  [[nodiscard]] std::vector<isthmus_chare_callback> take() {
    has_before_ = is_quiet_ = false;
    return std::exchange(asked_, {});
  }

 private:
  std::uint32_t processes_;
  std::uint32_t missing_ = 0;
  WorkCount now_;
  WorkCount before_;
  bool has_before_ = false;
  bool is_quiet_ = false;
  bool own_ = false;
  std::string why_;
  std::vector<isthmus_chare_callback> asked_;
};

}  // namespace isthmus::chare
