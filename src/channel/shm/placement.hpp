#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/region.hpp"

namespace isthmus {

/// Asks the kernel to take the whole pages within `memory`, which lies in a shared mapping and has not been
/// touched, from NUMA node `node` (mbind, MPOL_PREFERRED): wherever they are touched first, and by whom.
/// Whether it did so; without it they come from the node of whoever touches them first.
bool prefer_node(std::span<std::byte> memory, std::int32_t node) noexcept;

/// Has the kernel map the whole pages within `memory`, which lies in a shared mapping, for reading and
/// writing at once instead of one by one when they are touched. Where the kernel cannot (before Linux 5.14,
/// or without memory for all of it) nothing is lost: they are mapped when they are touched.
void map_pages(std::span<std::byte> memory) noexcept;

/// The same for the ring from one slot of a region to another, where there is one, as far as the first
/// `bytes` of its byte ring. A new page costs 2 to 3 us, of both sides: 0.8 ms for a ring of 512 KiB each
/// way.
void map_ring(const wire::RegionView& region, std::uint32_t from, std::uint32_t to,
              std::uint64_t bytes) noexcept;

/// How much of a byte ring this process has mapped for messages that go through it in many pieces.
class MappedRing {
 public:
  /// A message of `bytes` begins at `offset` of `ring`. One at the beginning needs as much of the ring as it
  /// is long, for so does the next one; any other is one of many, which go all around.
  void cover(std::span<std::byte> ring, std::uint64_t offset, std::uint64_t bytes) noexcept {
    const std::uint64_t end = offset == 0 ? std::min<std::uint64_t>(bytes, ring.size()) : ring.size();
    if (end <= mapped_) [[likely]]
      return;
    map_pages(ring.first(end).subspan(mapped_));
    mapped_ = end;
  }

 private:
  std::uint64_t mapped_ = 0;  ///< bytes from its beginning
};

}  // namespace isthmus
