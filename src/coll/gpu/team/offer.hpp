#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "coll/area/team_area.hpp"
#include "wire/gpu.hpp"

/// What members say to each other at the beginning of a collective between GPUs. Plain bytes, written by
/// members that may be broken: `GpuTeam` checks what it uses.
namespace isthmus::coll {

/// A buffer that others are to read or write: a place in one of the allocations that its owner has named.
struct GpuSide {
  static constexpr std::uint8_t none = 255;

  std::uint64_t offset = 0;   ///< in the allocation
  std::uint8_t entry = none;  ///< of the owner's allocations, as it counts them
  std::uint8_t fresh = 0;     ///< 1: named in this step: its `wire::GpuExport` lies in the owner's slot
  std::uint16_t reserved = 0;
  std::uint32_t reserved_too = 0;
};

/// Whether a member's send side is what it names, or is copied through a window of the library's
/// (`GpuRounds`).
enum class GpuWindowUse : std::uint8_t {
  never,     ///< and it cannot be
  possible,  ///< if another member has to
  either,    ///< others read and write nothing of it
  used,
};

/// What a member puts in its line.
struct GpuOffer {
  GpuSide send, receive;
  // Each 1 or 0.
  std::uint8_t takes_part = 0;  ///< its buffers are in the memory of a GPU, without gaps, and can be exported
  std::uint8_t forgets = 0;     ///< it copies by another GPU than before: all that was named is void
  std::uint8_t has_kernels = 0;
  std::uint8_t in_place = 0;
  std::uint8_t has_begins = 0;  ///< 1: `GpuSaid::begins` is in its slot
  GpuWindowUse windows = GpuWindowUse::never;
  std::uint16_t window = 0;   ///< of what `send` names then: its size in units of `window_unit`; 0: no window
  std::uint64_t longest = 0;  ///< as in `GpuCall`

  static constexpr std::uint64_t window_unit = std::uint64_t{64} << 10U;
};
static_assert(sizeof(GpuOffer) == 48 && sizeof(GpuOffer) <= Line::capacity);

/// The exports of what is fresh.
struct GpuFresh {
  wire::GpuExport send, receive;
};

/// Where what is for each member begins in the send side, in bytes.
using GpuBegins = std::array<std::uint64_t, flat_ranks>;

/// What a member puts in its slot, as far as its line says that it is there.
struct GpuSaid {
  GpuFresh fresh;
  GpuBegins begins;
};
static_assert(sizeof(GpuSaid) <= slot_bytes);

/// What a member found when it opened the fresh ones: two bits for each member.
struct GpuVerdict {
  std::uint32_t refused_send = 0, refused_receive = 0;
};
static_assert(flat_ranks <= 32 && sizeof(GpuVerdict) <= Line::capacity);

}  // namespace isthmus::coll
