#pragma once

#include <isthmus/device_view.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/error.hpp"

namespace isthmus::device {

/// What one proxy asks of another: a put, whose bytes follow in a message of their own; a get, whose bytes
/// come back; or a signal. Plain bytes.
struct Order {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t value = 0;
  std::uint64_t word = 0;
  std::uint32_t share = 0;
  std::uint32_t signal = 0;
  std::uint16_t kind = 0;
  std::uint16_t signals = 0;  ///< ISTHMUS_DEVICE_SET or _LINE behind the bytes; 0: no signal
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Order) == 48);

[[nodiscard]] Order order_of(const isthmus_device_request& request);
/// What comes from another process, or from memory that kernels write, is believed only then. `shares`: bytes
/// of each on the side whose memory is meant.
Result<> check(const Order& order, std::uint32_t signals, std::span<const std::size_t> shares);

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

}  // namespace isthmus::device
