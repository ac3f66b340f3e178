#pragma once

#include <cstdint>

#include "kernels/body/meet/unit.hpp"
#include "kernels/body/reduce_list.hpp"

/// Long data: pieces as they are, and a number behind them that says that they are there. A fence of the
/// whole system stands between the two; packets need none, but twice the bytes.
///
/// A block sends a piece before it looks for the one before that, so that bytes are always on their way. Four
/// slots serve in turn. Who has heard piece r of another member knows that this one has taken piece r - 2; a
/// block has heard r - 2 when it sends r, and so the slot of r - 4 is free.
///
/// One kernel does it all, and calls what combines a piece by its number: with the rest in each of the
/// kernels that reduce, they took nvcc twice as long.
namespace isthmus::kernel {

/// Data for each member; or the same for all.
struct MeetSides {
  const MeetSide* first;
  std::uint32_t apart;  ///< 1, or 0

  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION MeetSide of(std::uint32_t member) const {
    return first[member * apart];
  }
};

/// One block's side of all pieces. The numbers of pieces count on from launch to launch.
struct PieceRoom {
  const MeetArguments& work;
  std::uint32_t block;

  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION Byte* part(std::uint32_t member) const {
    return work.rooms[member] + packets_room_bytes(work.members);
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION device::u64* count() const {
    return reinterpret_cast<device::u64*>(part(work.rank)) + block;
  }
  /// The number of the last piece that is there.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION device::u64* flag(std::uint32_t receiver,
                                                          std::uint32_t sender) const {
    Byte* const flags = part(receiver) + piece_counts + block * piece_flags;
    return &reinterpret_cast<device::Line*>(flags)[sender].value;
  }
  /// Of the pieces of that number from all others, by rank.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION Byte* slots(std::uint32_t receiver, device::u64 number) const {
    const std::uint64_t turn = std::uint64_t{block} * piece_slots + number % piece_slots;
    return part(receiver) + piece_header + turn * (work.members - 1) * piece_slot_bytes(work.members);
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION Byte* slot(std::uint32_t receiver, std::uint32_t sender,
                                                   device::u64 number) const {
    const std::uint32_t place = sender < receiver ? sender : sender - 1;
    return slots(receiver, number) + place * piece_slot_bytes(work.members);
  }
  /// The k-th member after this one.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION std::uint32_t other(std::uint32_t k) const {
    const std::uint32_t member = work.rank + k;
    return member < work.members ? member : member - work.members;
  }
  /// How much of it belongs to the piece at that byte.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION std::uint64_t length(const MeetSide& side, std::uint64_t at) const {
    if (at >= side.bytes) return 0;
    return side.bytes - at < work.piece ? side.bytes - at : work.piece;
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION std::uint64_t first() const {
    return std::uint64_t{block} * work.piece;
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION std::uint64_t step() const {
    return std::uint64_t{device::block_count()} * work.piece;
  }
};

ISTHMUS_DEVICE_CALLED void copy_piece(Byte* to, const Byte* from, std::uint64_t bytes) {
  device::copy(device::ByBlock(), to, from, bytes);
}

/// Sends the piece at byte `at` to all others.
ISTHMUS_DEVICE_FUNCTION void send_piece(const PieceRoom& room, const MeetSides& out, std::uint64_t at,
                                        device::u64 number) {
  const device::ByBlock by;
  const MeetArguments& work = room.work;
  for (std::uint32_t k = 1; k < work.members; ++k) {
    const MeetSide side = out.of(room.other(k));
    if (const std::uint64_t bytes = room.length(side, at); bytes != 0)
      copy_piece(room.slot(room.other(k), work.rank, number), side.at + at, bytes);
  }
  by.sync();
  for (std::uint32_t k = 1 + by.index(); k < work.members; k += by.size()) {
    device::detail::fence_system();
    device::detail::store_word(room.flag(room.other(k), work.rank), number);
  }
}

/// Waits for a piece of each other member, by threads that do not wait for the fence of `send_piece`. False
/// for all threads: nobody waits any more.
ISTHMUS_DEVICE_FUNCTION bool hear_piece(const PieceRoom& room, device::u64 number) {
  const device::ByBlock by;
  const MeetArguments& work = room.work;
  bool ok = true;
  for (std::uint32_t k = 1 + (by.index() + by.size() / 2) % by.size(); ok && k < work.members;
       k += by.size()) {
    const device::u64* const flag = room.flag(work.rank, room.other(k));
    for (std::uint32_t looks = 1; ok && device::detail::acquire_word(flag) < number; ++looks) {
      ok = looks % device::detail::looks_per_question != 0 || device::detail::load_word(work.ended) == 0;
      device::detail::pause();
    }
  }
  return by.all(ok);
}

/// Sends `out` to the others, and calls `take(at, number)` with all threads for each piece that they have
/// sent. False: nobody waits any more. Behind it each thread sees what the others have taken.
template <class Take>
ISTHMUS_DEVICE_FUNCTION bool exchange_pieces(const PieceRoom& room, const MeetSides& out, device::u64& number,
                                             Take take) {
  send_piece(room, out, room.first(), number + 1);
  for (std::uint64_t at = room.first(), next = 0;; at = next) {
    next = at + room.step();
    const bool has_next = next < room.work.longest;
    if (has_next) send_piece(room, out, next, number + 2);
    if (!hear_piece(room, ++number)) return false;
    take(at, number);
    if (!has_next) break;
  }
  device::ByBlock().sync();
  return true;
}

/// What has come from all members, and what this one has, to where it belongs.
ISTHMUS_DEVICE_FUNCTION bool bring_pieces(const PieceRoom& room, const MeetSides& out, device::u64& number) {
  const MeetArguments& work = room.work;
  return exchange_pieces(room, out, number, [&](std::uint64_t at, device::u64 now) {
    for (std::uint32_t member = 0; member < work.members; ++member) {
      const MeetSide to = work.in[member];
      const std::uint64_t bytes = room.length(to, at);
      if (bytes == 0) continue;
      const Byte* const from =
          member == work.rank ? out.of(member).at + at : room.slot(work.rank, member, now);
      if (from != to.at + at) copy_piece(to.at + at, from, bytes);
    }
  });
}

// Units that lie anywhere, or end before their end.
ISTHMUS_DEVICE_CALLED MeetUnit load_any_unit(Byte* from, std::uint64_t bytes, std::uint64_t at) {
  return load_unit({from, bytes}, at);
}
ISTHMUS_DEVICE_CALLED void store_any_unit(Byte* to, std::uint64_t bytes, std::uint64_t at, MeetUnit unit) {
  store_unit({to, bytes}, at, unit);
}

/// A piece of each member, one's own among them.
struct PieceOperands {
  const Byte* own;
  const Byte* slots;  ///< of the others, by rank
  std::uint64_t slot_bytes;
  std::uint32_t rank;
  std::uint32_t members;

  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION const Byte* of(std::uint32_t member) const {
    if (member == rank) return own;
    return slots + (member < rank ? member : member - 1) * slot_bytes;
  }
};

/// Combined in the order of ranks. Its arguments are numbers, because structures would go by memory.
template <class T, class Operation>
ISTHMUS_DEVICE_CALLED void combine_piece(const Byte* own, const Byte* slots, std::uint64_t slot_bytes,
                                         std::uint32_t rank, std::uint32_t members, Byte* to,
                                         std::uint64_t bytes) {
  const device::ByBlock by;
  const PieceOperands from{own, slots, slot_bytes, rank, members};
  const bool is_aligned =
      (reinterpret_cast<std::uint64_t>(own) | reinterpret_cast<std::uint64_t>(to)) % sizeof(MeetUnit) == 0;
  for (std::uint64_t at = by.index() * sizeof(MeetUnit); at < bytes; at += by.size() * sizeof(MeetUnit)) {
    const bool is_whole = is_aligned && bytes - at >= sizeof(MeetUnit);
    MeetUnit sum{};
    for (std::uint32_t member = 0; member < members; ++member) {
      Byte* const data = const_cast<Byte*>(from.of(member));
      const MeetUnit unit = is_whole ? load<MeetUnit>(data + at) : load_any_unit(data, bytes, at);
      sum = member == 0 ? unit : combined_units<T, Operation>(sum, unit);
    }
    if (is_whole)
      store(to + at, sum);
    else
      store_any_unit(to, bytes, at, sum);
  }
}

ISTHMUS_DEVICE_CALLED void combine_piece_by_number(std::uint32_t number, const Byte* own, const Byte* slots,
                                                   std::uint64_t slot_bytes, std::uint32_t rank,
                                                   std::uint32_t members, Byte* to, std::uint64_t bytes) {
  std::uint32_t i = 0;
#define ISTHMUS_COMBINE_(operation, type, operation_name, type_name) \
  if (number == i++) return combine_piece<type, operation>(own, slots, slot_bytes, rank, members, to, bytes);
  ISTHMUS_REDUCE_KERNELS(ISTHMUS_COMBINE_)
#undef ISTHMUS_COMBINE_
}

/// What all members have for this one, combined.
ISTHMUS_DEVICE_FUNCTION bool combine_pieces(const PieceRoom& room, device::u64& number) {
  const MeetArguments& work = room.work;
  return exchange_pieces(room, {work.out, 1}, number, [&](std::uint64_t at, device::u64 now) {
    const std::uint64_t bytes = room.length(work.result, at);
    if (bytes == 0) return;
    combine_piece_by_number(work.combine - 1, work.out[work.rank].at + at, room.slots(work.rank, now),
                            piece_slot_bytes(work.members), work.rank, work.members, work.result.at + at,
                            bytes);
  });
}

/// Each member's `out` to the others' `in`, or combined to `result`.
ISTHMUS_DEVICE_FUNCTION void meet_in_pieces(const MeetArguments& work) {
  const PieceRoom room{work, device::block_number()};
  device::u64 number = device::detail::load_word(room.count());
  if (work.combine != 0 && !combine_pieces(room, number)) return;
  const bool is_sum = work.combine != 0;
  if ((!is_sum || work.shared != 0) &&
      !bring_pieces(room, {is_sum ? &work.result : work.out, is_sum ? 0U : 1U}, number))
    return;
  if (device::ByBlock().index() == 0) device::detail::store_word(room.count(), number);
}

}  // namespace isthmus::kernel
