#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "gpu/memory/buffer.hpp"
#include "gpu/memory/mapping.hpp"

namespace isthmus::coll {

/// The allocations that one member of a team has named to all others, so that a buffer in one of them is told
/// by an index and an offset. The member alone decides what is kept; the others follow.
class GpuTable {
 public:
  /// A program's communication buffers are few; each entry of a peer keeps a mapping open.
  static constexpr std::size_t size = 16;

  struct Entry {
    std::uint64_t exporter = 0, allocation = 0;  ///< 0: empty
    std::uint64_t base = 0, room = 0;            ///< at the owner
    std::byte* here = nullptr;                   ///< where it begins in this process
    std::shared_ptr<const Mapping> mapping;
    bool refused = false;  ///< some member cannot reach it
    std::uint64_t used = 0;
  };

  // --- of the own allocations

  /// Where a buffer's allocation is, if it has been named.
  std::optional<std::uint8_t> find(const Buffer& buffer);
  /// Which entry a new one takes: that of an allocation at the same place, or the one used longest ago.
  [[nodiscard]] std::uint8_t pick(const Buffer& buffer) const;

  // --- of any member's

  [[nodiscard]] Entry& operator[](std::uint8_t index) noexcept { return entries_[index]; }
  /// Sets an entry, without mapping; closes whatever lay at the same place, which the owner has freed.
  Entry& name(std::uint8_t index, const Export& what);
  void drop(std::uint8_t index) { entries_[index] = {}; }
  void clear() { entries_ = {}; }
  void forget(std::uint64_t exporter, std::uint64_t allocation);

 private:
  std::array<Entry, size> entries_;
  std::uint64_t clock_ = 0;
};

}  // namespace isthmus::coll
