#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/ring.hpp"

namespace isthmus {

/// A pair's place (`wire::place_bytes`) as one of the two sees it. The other may change what lies there at
/// any time, and say of it what it likes: pieces stay within the place, and what they hold is its own
/// message.
class SharedPlace {
 public:
  SharedPlace() = default;
  /// `ring`: that which the lower slot writes.
  SharedPlace(std::span<std::byte> ring, const wire::RingGeometry& geometry, bool is_own) noexcept
      : memory_(ring.data() + wire::place_offset(geometry)),
        size_(wire::place_bytes(geometry)),
        is_own_(is_own) {}

  /// Whether a message of `bytes` can be written there now.
  [[nodiscard]] bool takes(std::uint64_t bytes) const noexcept { return is_own_ && bytes <= size_; }
  /// Where to write it. From now on the place is the other's, who is to hear of each piece in order.
  [[nodiscard]] std::byte* give() noexcept {
    is_own_ = false;
    return memory_;
  }

  /// The other says that it has begun a message of `bytes`. False where it cannot have done so: it has not
  /// got the place, its last message there has not ended, or none of this length fits. May be called again
  /// before `was_read`.
  [[nodiscard]] bool begin(std::uint64_t bytes) noexcept {
    if (!memory_ || is_own_ || read_ != 0 || bytes > size_) return false;
    end_ = static_cast<std::uint32_t>(bytes);
    return true;
  }
  /// The next `bytes` of the message; null where it has not so many, and for none.
  [[nodiscard]] const std::byte* piece(std::uint32_t bytes) const noexcept {
    return bytes != 0 && bytes <= end_ - read_ ? memory_ + read_ : nullptr;
  }
  /// Done with that piece. After the message's last one the place is this rank's.
  void was_read(std::uint32_t bytes) noexcept {
    read_ += bytes;
    if (read_ < end_) return;
    read_ = end_ = 0;
    is_own_ = true;
  }

 private:
  std::byte* memory_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint32_t read_ = 0;  ///< bytes of the other's message that have been
  std::uint32_t end_ = 0;   ///< its length
  bool is_own_ = false;
};

}  // namespace isthmus
