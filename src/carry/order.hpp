#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "base/error.hpp"

namespace isthmus::carry {

/// What one carrier asks of another.
enum class Kind : std::uint16_t {
  none = 0,
  put = 1,     ///< its bytes follow in messages of their own
  get = 2,     ///< its bytes come back
  signal = 3,  ///< no bytes
  left = 4,    ///< the sender asks for nothing any more
  failed = 5,  ///< the sender can do nothing any more
};
/// How a signal is set behind the bytes.
enum class Signal : std::uint16_t {
  none = 0,
  set = 1,
  add = 2,   ///< by kernels alone
  line = 3,  ///< value and word
};

/// Plain bytes.
struct Order {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t value = 0;
  std::uint64_t word = 0;
  std::uint32_t share = 0;
  std::uint32_t signal = 0;
  Kind kind = Kind::none;
  Signal signals = Signal::none;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Order) == 48);

/// What there is on the side whose memory is meant.
struct Limits {
  std::uint32_t signals = 0;
  std::span<const std::size_t> shares;  ///< bytes of each
  const char* asks = "";                ///< who has asked, for people
  const char* late = "";                ///< why a share may not be there any more, for people
};
/// What comes from another process, or from memory that kernels write, is believed only then.
Result<> check(const Order& order, const Limits& limits);

/// Numbers whose ends come in any order, and count in theirs.
class InOrder {
 public:
  /// The next number, from 1.
  std::uint64_t begin() {
    open_.push_back(true);
    return first_ + open_.size() - 1;
  }
  void end(std::uint64_t number) {
    open_[static_cast<std::size_t>(number - first_)] = false;
    while (!open_.empty() && !open_.front()) {
      open_.pop_front();
      ++first_;
    }
  }
  /// All up to here have ended.
  [[nodiscard]] std::uint64_t ended() const noexcept { return first_ - 1; }
  [[nodiscard]] bool is_idle() const noexcept { return open_.empty(); }

 private:
  std::deque<bool> open_;
  std::uint64_t first_ = 1;
};

}  // namespace isthmus::carry
