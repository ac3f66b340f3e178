#pragma once

#include <isthmus/device.cuh>

#include <cstdint>

#include "kernels/body/threads.hpp"

/// Collectives by one launch a member: kernels of all members meet in each other's memory, and no host has a
/// part in it. Each member has a room in the memory of its GPU, which all others have mapped. What is sent
/// goes to the receiver's room, and each looks at its own memory alone.
///
/// Blocks do not wait for other blocks of their grid, but for those of their number at the other members. So
/// they need not all run at once, as long as GPUs begin with the lowest numbers. Rounds are counted for each
/// block, in the room: no number comes from the host, and a captured launch is right at each replay.
///
/// Short data go in packets, each with its own number (packets.hpp); what is longer in pieces with a number
/// behind them (pieces.hpp). Both have their own part of the room, and count rounds by themselves.
namespace isthmus::kernel {

inline constexpr std::uint32_t meet_members = 8;
inline constexpr std::uint32_t meet_threads = 512;
inline constexpr std::uint32_t meet_blocks = 128;
/// Bytes of data of two packets, and how many of these a block sends to each member in a round.
inline constexpr std::uint32_t meet_unit = 16;
inline constexpr std::uint32_t meet_units = 512;
/// Of a room, before the packets: the blocks' rounds.
inline constexpr std::uint64_t meet_header = 1024;
static_assert(meet_header >= meet_blocks * sizeof(std::uint64_t));

using Packet = device::Line;
inline constexpr std::uint64_t meet_packets = 2;  ///< of a unit

/// Two on each multiprocessor of a GPU with 128 or more: while one waits for a fence, the other one sends.
/// With one each, 64 MiB took 228 to 249 us in place of 206 (two H200).
inline constexpr std::uint32_t piece_blocks = 256;
/// Pieces of a block that are on their way to a member at most.
inline constexpr std::uint32_t piece_slots = 4;
/// Of a block: the number of the last piece from each member, 16 bytes apart.
inline constexpr std::uint64_t piece_flags = std::uint64_t{meet_members} * sizeof(device::Line);
/// Before the pieces: the blocks' counts, then their flags.
inline constexpr std::uint64_t piece_counts = piece_blocks * sizeof(std::uint64_t);
inline constexpr std::uint64_t piece_header = piece_counts + piece_blocks * piece_flags;
/// What a block's threads copy at once, and what a slot has room for. With 32 KiB, 16 MiB took 66 us in place
/// of 61, and 64 MiB the same.
inline constexpr std::uint64_t short_piece = std::uint64_t{meet_threads} * sizeof(Vector);
inline constexpr std::uint64_t most_piece = 2 * short_piece;

[[nodiscard]] ISTHMUS_ANYWHERE constexpr std::uint64_t packets_room_bytes(std::uint32_t members) {
  return meet_header + std::uint64_t{meet_blocks} * 2 * members * meet_units * meet_packets * sizeof(Packet);
}
/// With more members, pieces are shorter, and a room has up to 28 MiB of them.
[[nodiscard]] ISTHMUS_ANYWHERE constexpr std::uint64_t piece_slot_bytes(std::uint32_t members) {
  return members <= 2 ? most_piece : members <= 4 ? most_piece / 2 : most_piece / 4;
}
[[nodiscard]] ISTHMUS_ANYWHERE constexpr std::uint64_t pieces_room_bytes(std::uint32_t members) {
  return piece_header + std::uint64_t{piece_blocks} * piece_slots * (members - 1) * piece_slot_bytes(members);
}
[[nodiscard]] ISTHMUS_ANYWHERE constexpr std::uint64_t meet_room_bytes(std::uint32_t members) {
  return packets_room_bytes(members) + pieces_room_bytes(members);
}

/// Data of any alignment.
struct MeetSide {
  Byte* at;
  std::uint64_t bytes;
};

struct MeetArguments {
  Byte* rooms[meet_members];
  MeetSide out[meet_members];  ///< to each; of this member what it has for itself
  MeetSide in[meet_members];   ///< from each; not looked at by reductions that are not `shared`
  MeetSide result;             ///< of a reduction
  const device::u64* ended;    ///< a word of pinned memory: not 0: nobody waits any more
  std::uint64_t longest;       ///< of all that any member sends to any other
  std::uint32_t rank;
  std::uint32_t members;
  /// Of an allreduce: each computes the share that `result` is, which all others get (`in`).
  std::uint32_t shared;
  // Of meetings in pieces alone:
  std::uint32_t piece;    ///< bytes of one, the same at all members
  std::uint32_t combine;  ///< 0: data are moved; else one more than the number in reduce_list.hpp
};

/// Bytes of a piece for data of which `longest` are the most from one member to another: short until all
/// blocks have one.
[[nodiscard]] constexpr std::uint32_t piece_bytes(std::uint64_t longest, std::uint32_t members) {
  const std::uint64_t most = piece_slot_bytes(members);
  const bool is_short = short_piece < most && longest <= short_piece * piece_blocks;
  return static_cast<std::uint32_t>(is_short ? short_piece : most);
}

[[nodiscard]] constexpr std::uint32_t meet_grid(const MeetArguments& work) {
  const bool in_pieces = work.piece != 0;
  const std::uint64_t of_block = in_pieces ? work.piece : meet_unit * meet_units;
  const std::uint64_t most = in_pieces ? piece_blocks : meet_blocks;
  const std::uint64_t blocks = (work.longest + of_block - 1) / of_block;
  return static_cast<std::uint32_t>(blocks < 1 ? 1 : blocks > most ? most : blocks);
}

}  // namespace isthmus::kernel
