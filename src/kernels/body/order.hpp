#pragma once

#include <cstdint>

#include "kernels/body/threads.hpp"

/// What the host and the GPU tell each other of short collectives; body/order_part.hpp carries them out.
namespace isthmus::kernel {

inline constexpr std::uint32_t most_order_members = 8;
/// Bytes of data of a unit, which travels in two packets of 16 bytes.
inline constexpr std::uint32_t order_unit = 16;
/// Of a block, which is what one member has for another one.
inline constexpr std::uint32_t most_order_bytes = 16384;
inline constexpr std::uint32_t order_units = most_order_bytes / order_unit;
/// Threads of the kernel that carries out one.
inline constexpr std::uint32_t order_threads = 512;
/// Bytes up to which a courier's first warp does it alone: a unit for each lane.
inline constexpr std::uint32_t most_order_alone = 512;

[[nodiscard]] ISTHMUS_ANYWHERE constexpr std::uint64_t order_room_bytes(std::uint32_t members) {
  return std::uint64_t{members} * order_units * 2 * order_unit;
}

/// Who meets where. A courier reads it in the memory of its GPU, once for as long as `id` is the same.
struct MeetTable {
  Byte* rooms[most_order_members];
  const std::uint64_t* ended;  ///< as in `MeetArguments`
  std::uint64_t id;            ///< no other one of this process has had it; 48 bits
  std::uint32_t rank;
  std::uint32_t members;
};
static_assert(sizeof(MeetTable) % sizeof(std::uint64_t) == 0, "read in words");

/// One member's part.
struct MeetOrder {
  Byte* send;
  Byte* receive;
  std::uint64_t round;     ///< of the team, from 1
  std::uint32_t bytes;     ///< of a block; up to `most_order_bytes`
  std::uint16_t combine;   ///< 0: blocks go where they belong; else one more than the number of the kernel
  std::uint8_t send_to;    ///< a bit for each member that gets a block of this one
  std::uint8_t take_from;  ///< a bit for each whose block this one takes or combines, itself among them
  bool send_differs;       ///< each gets a block of its own, in the order of ranks
  bool take_differs;       ///< each one's block goes to a place of its own, in the order of ranks
};

/// Of the kernel of one block that carries out one order.
struct OrderArguments {
  MeetTable table;
  MeetOrder order;
  std::uint64_t*
      done;  ///< a word of pinned memory: the order's round, when it has been carried out, or ended
};

}  // namespace isthmus::kernel
