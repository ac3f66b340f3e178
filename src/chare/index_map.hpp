#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "chare/record.hpp"

namespace isthmus::chare {

/// A number that spreads indices, the same in all processes: who the home of an index is follows from it.
[[nodiscard]] inline std::uint64_t spread(Index index) noexcept {
  std::uint64_t x = index.low ^ (index.high * 0x9e37'79b9'7f4a'7c15);
  x ^= x >> 32;
  x *= 0xd6e8'feb8'6659'fd93;
  x ^= x >> 32;
  x *= 0xd6e8'feb8'6659'fd93;
  x ^= x >> 32;
  return x;
}

/// A table from indices to values, in one piece of memory: 16 to 43 bytes for each pointer to something that
/// knows its index. `Value` is empty where it converts to false.
template <class Value, class IndexOf>
class IndexMap {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// An empty value where there is none.
  [[nodiscard]] Value find(Index index) const noexcept {
    if (slots_.empty()) return {};
    for (std::size_t at = start(index);; at = (at + 1) & mask_) {
      if (!slots_[at]) return {};
      if (is_same(IndexOf{}(slots_[at]), index)) return slots_[at];
    }
  }
  /// Its index must not be there.
  void insert(Value value) {
    if ((size_ + 1) * 4 > slots_.size() * 3) grow();
    put(value);
    ++size_;
  }
  void erase(Index index) noexcept {
    if (slots_.empty()) return;
    std::size_t at = start(index);
    while (slots_[at] && !is_same(IndexOf{}(slots_[at]), index))
      at = (at + 1) & mask_;
    if (!slots_[at]) return;
    --size_;
    // Those behind it move up as far as they may, so that no search ends too early.
    for (std::size_t next = (at + 1) & mask_; slots_[next]; next = (next + 1) & mask_) {
      const std::size_t wanted = start(IndexOf{}(slots_[next]));
      if (((next - wanted) & mask_) >= ((next - at) & mask_))
        slots_[at] = std::exchange(slots_[next], Value{}), at = next;
    }
    slots_[at] = Value{};
  }

 private:
  [[nodiscard]] std::size_t start(Index index) const noexcept { return spread(index) & mask_; }
  void put(Value value) noexcept {
    std::size_t at = start(IndexOf{}(value));
    while (slots_[at])
      at = (at + 1) & mask_;
    slots_[at] = value;
  }
  void grow() { rebuild(slots_.empty() ? 16 : slots_.size() * 2); }
  void rebuild(std::size_t count) {
    std::vector<Value> old(count);
    old.swap(slots_);
    mask_ = count - 1;
    for (Value& value : old)
      if (value) put(value);
  }

  std::vector<Value> slots_;
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace isthmus::chare
