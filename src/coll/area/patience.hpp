#pragma once

#include <algorithm>
#include <cstdint>

namespace isthmus::coll {

/// How often the members of a communicator ask each other what has mostly been answered with no. Follows from
/// the answers alone, which all members hear alike, so that all ask in the same calls.
///
/// After a yes, each call asks, until `patience` of them in a row have heard a no: a program may reduce in
/// one memory and broadcast in another. Without that, ever more calls pass from one question to the next, up
/// to `longest`; never for long the same multiple, so that no kind of call in a program's loop is left out.
class Patience {
 public:
  static constexpr std::uint32_t patience = 16;
  /// Calls without a question: one less than a prime.
  static constexpr std::uint32_t longest = 66;

  /// Counts a call: whether it asks. Then `heard` must follow.
  [[nodiscard]] bool asks() noexcept {
    if (rest_ == 0) return true;
    --rest_;
    return false;
  }
  void heard(bool yes) noexcept {
    if (yes) {
      left_ = patience;
      pause_ = 0;
    } else if (left_ > 0) {
      --left_;
    } else {
      pause_ = pause_ < 32 ? std::max(2 * pause_, 1U) : longest;
      rest_ = pause_;
    }
  }

 private:
  std::uint32_t left_ = 0;   ///< how often a no changes nothing
  std::uint32_t pause_ = 0;  ///< the last one, in calls
  std::uint32_t rest_ = 0;   ///< of it
};

}  // namespace isthmus::coll
