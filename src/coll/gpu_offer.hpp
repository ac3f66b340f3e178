#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/team_area.hpp"
#include "wire/ring.hpp"

/// What members say to each other at the beginning of a collective between GPUs. Plain bytes, written by
/// members that may be broken: `GpuTeam` checks what it uses.
namespace isthmus::coll {

/// A buffer that others are to read or write: a place in one of the allocations that its owner has named.
struct GpuSide {
  static constexpr std::uint8_t none = 255;

  std::uint64_t offset = 0;   ///< in the allocation
  std::uint8_t entry = none;  ///< of the owner's allocations, as it counts them
  bool fresh = false;         ///< named in this step: its `wire::GpuExport` lies in the owner's slot
  std::uint16_t reserved = 0;
  std::uint32_t reserved_too = 0;
};

/// What a member puts in its line.
struct GpuOffer {
  GpuSide send, receive;
  bool takes_part = false;  ///< its buffers are in the memory of a GPU, without gaps, and can be exported
  bool forgets = false;     ///< it copies by another GPU than before: all that was named is void
  bool has_kernels = false;
  bool in_place = false;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(GpuOffer) <= Line::capacity);

/// The exports of what is fresh, in the member's slot.
struct GpuFresh {
  wire::GpuExport send, receive;
};
static_assert(sizeof(GpuFresh) <= slot_bytes);

/// What a member found when it opened the fresh ones: two bits for each member.
struct GpuVerdict {
  std::uint32_t refused_send = 0, refused_receive = 0;
};
static_assert(flat_ranks <= 32 && sizeof(GpuVerdict) <= Line::capacity);

}  // namespace isthmus::coll
