#pragma once

#include <cstdint>

#include "kernels/body/order.hpp"
#include "kernels/body/threads.hpp"

namespace isthmus::kernel {

/// Copies and orders that a courier can be given before it has done the first of them.
inline constexpr std::uint64_t courier_slots = 16;
/// Threads of the warp that looks for parcels, and of the whole block.
inline constexpr std::uint32_t courier_lanes = 32;
inline constexpr std::uint32_t courier_threads = 512;
/// What the warp copies by itself: as much as it can ask for at a time. All threads copy what is longer.
inline constexpr std::uint32_t most_alone = 4096;
inline constexpr std::uint32_t most_parcel_bytes = 65536;

/// What a courier is given, in lines that come one by one: of a copy the first line is read, of an order
/// (`MeetOrder`) all. Each word of each has 8 bits of the parcel's number, so that one that has not come yet
/// is told from one that has; before it 48 bits of an address or the like, and behind it 8 bits of a size.
/// From address 0: the courier is to leave.
struct alignas(16) Parcel {
  std::uint64_t from;
  std::uint64_t to;
};
inline constexpr std::uint32_t parcel_lines = 3;
struct alignas(64) ParcelSlot {
  Parcel lines[parcel_lines];
};

constexpr std::uint64_t parcel_address_bits = 48;
/// Of the first word of an order. No address of a process has it.
constexpr std::uint64_t order_bit = std::uint64_t{1} << 47;

/// Differs between the parcels that follow one another in a slot, and from what a fresh board has.
ISTHMUS_ANYWHERE std::uint64_t parcel_mark(std::uint64_t number) {
  return (number / courier_slots + 1) & 0xff;
}

ISTHMUS_ANYWHERE Parcel make_parcel(std::uint64_t number, std::uint64_t from, std::uint64_t to,
                                    std::uint32_t bytes) {
  const std::uint64_t mark = parcel_mark(number) << parcel_address_bits;
  const std::uint32_t size = (bytes - 1) & 0xffff;
  return {from | mark | std::uint64_t{size & 0xff} << 56, to | mark | std::uint64_t{size >> 8} << 56};
}

ISTHMUS_ANYWHERE std::uint64_t parcel_word(std::uint64_t number, std::uint64_t value, std::uint32_t small) {
  return value | parcel_mark(number) << parcel_address_bits | std::uint64_t{small} << 56;
}

/// What a host writes of an order; the table lies in memory of the courier's GPU.
ISTHMUS_ANYWHERE ParcelSlot make_order(std::uint64_t number, const MeetOrder& order, std::uint64_t table,
                                       std::uint64_t table_id) {
  const auto address = [](const Byte* place) { return reinterpret_cast<std::uint64_t>(place); };
  ParcelSlot slot{};
  slot.lines[0] = make_parcel(number, address(order.send) | order_bit, address(order.receive), order.bytes);
  const std::uint64_t shape =
      order.combine | std::uint64_t{order.send_differs} << 16 | std::uint64_t{order.take_differs} << 17;
  slot.lines[1] = {parcel_word(number, table, order.send_to), parcel_word(number, shape, order.take_from)};
  slot.lines[2] = {parcel_word(number, order.round, 0), parcel_word(number, table_id, 0)};
  return slot;
}

ISTHMUS_ANYWHERE bool is_parcel(const Parcel& seen, std::uint64_t number) {
  const std::uint64_t mark = parcel_mark(number);
  return (seen.from >> parcel_address_bits & 0xff) == mark && (seen.to >> parcel_address_bits & 0xff) == mark;
}

ISTHMUS_ANYWHERE std::uint64_t parcel_address(std::uint64_t word) {
  return word & ((std::uint64_t{1} << parcel_address_bits) - 1);
}

ISTHMUS_ANYWHERE std::uint32_t parcel_bytes(const Parcel& parcel) {
  return static_cast<std::uint32_t>(parcel.from >> 56 | (parcel.to >> 56) << 8) + 1;
}

ISTHMUS_ANYWHERE bool is_order(const Parcel& first) {
  return (first.from & order_bit) != 0;
}

/// An order as it has come; addresses are for the machine to see.
struct OrderParcel {
  MeetOrder order;
  std::uint64_t send, receive, table, table_id;
};
ISTHMUS_ANYWHERE OrderParcel read_order(const Parcel& first, const Parcel& second, const Parcel& third) {
  OrderParcel parcel{};
  parcel.send = parcel_address(first.from) & ~order_bit;
  parcel.receive = parcel_address(first.to);
  parcel.table = parcel_address(second.from);
  parcel.table_id = parcel_address(third.to);
  MeetOrder& order = parcel.order;
  const std::uint64_t shape = parcel_address(second.to);
  order.round = parcel_address(third.from);
  order.bytes = parcel_bytes(first);
  order.combine = static_cast<std::uint16_t>(shape & 0xffff);
  order.send_differs = (shape >> 16 & 1) != 0;
  order.take_differs = (shape >> 17 & 1) != 0;
  order.send_to = static_cast<std::uint8_t>(second.from >> 56);
  order.take_from = static_cast<std::uint8_t>(second.to >> 56);
  return parcel;
}

/// What host and courier tell each other, in pinned memory. Parcels and couriers are numbered from 1. A
/// courier that has written `left` touches nothing any more; one that finds `recalled` at its number when it
/// begins leaves at once.
struct CourierBoard {
  ParcelSlot parcels[courier_slots];    ///< number n in slot n % courier_slots; by the host
  alignas(64) std::uint64_t recalled;   ///< couriers up to this number must not begin; by the host
  alignas(64) std::uint64_t delivered;  ///< parcels up to this number have arrived; by the courier
  std::uint64_t begun;                  ///< number of the last courier that has
  std::uint64_t left;                   ///< number of the last courier that has
};

struct CourierArguments {
  CourierBoard* board;
  std::uint64_t number;    ///< of this courier
  std::uint64_t next;      ///< its first parcel
  std::uint64_t patience;  ///< nanoseconds without a parcel after which it leaves
};

/// One of the threads that copy a parcel together: at least `courier_lanes`.
struct Carrier {
  std::uint32_t lane;
  std::uint32_t lanes;
};

/// `bytes` is at most `most_parcel_bytes`.
template <class Unit, class Machine>
ISTHMUS_ANYWHERE void carry_units(const Machine& machine, Byte* to, const Byte* from, std::uint32_t bytes,
                                  Carrier carrier) {
  const auto [lane, lanes] = carrier;
  const auto ahead = static_cast<std::uint32_t>(
      (sizeof(Unit) - reinterpret_cast<std::uintptr_t>(to) % sizeof(Unit)) % sizeof(Unit));
  const std::uint32_t head = ahead < bytes ? ahead : bytes;
  const auto units = static_cast<std::uint32_t>((bytes - head) / sizeof(Unit));
  const auto behind = static_cast<std::uint32_t>(head + units * sizeof(Unit));
  // Fewer bytes before and behind the units than there are lanes. They are asked for first, so that they come
  // together with the units.
  const std::uint32_t edges = head + (bytes - behind);
  const std::uint32_t at = lane < head ? lane : lane - head + behind;
  Byte edge = 0;
  if (lane < edges) edge = machine.template load<Byte>(from + at);
  constexpr std::uint32_t together = 8;
  for (std::uint32_t first = lane; first < units; first += lanes * together) {
    Unit loaded[together];
    ISTHMUS_UNROLL
    for (std::uint32_t i = 0; i < together; ++i)
      if (const std::uint32_t unit = first + lanes * i; unit < units)
        loaded[i] = machine.template load<Unit>(from + head + unit * sizeof(Unit));
    ISTHMUS_UNROLL
    for (std::uint32_t i = 0; i < together; ++i)
      if (const std::uint32_t unit = first + lanes * i; unit < units)
        store(to + head + unit * sizeof(Unit), loaded[i]);
  }
  if (lane < edges) to[at] = edge;
}

template <class Machine>
ISTHMUS_ANYWHERE void carry(const Machine& machine, Byte* to, const Byte* from, std::uint32_t bytes,
                            Carrier carrier) {
  const std::uint64_t apart = reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
  if (apart % 16 == 0) return carry_units<Vector>(machine, to, from, bytes, carrier);
  if (apart % 4 == 0) return carry_units<std::uint32_t>(machine, to, from, bytes, carrier);
  carry_units<Byte>(machine, to, from, bytes, carrier);
}

/// A courier's life. `Machine` is a warp of the GPU, or a thread of the host that stands for one: it can
/// `look` at a slot and `agree` on a line that its lanes have seen there, `load` past caches (the memory
/// changes while the kernel runs), `see` an address that it was told, `bring` a parcel or `obey` an order
/// with as many threads as suit it, and `tell` a word after all stores before. False if it was told an
/// address that is none.
template <class Machine>
ISTHMUS_ANYWHERE bool serve(const CourierArguments& work, const Machine& machine) {
  CourierBoard& board = *work.board;
  std::uint64_t last = machine.now();
  for (std::uint64_t number = work.next;;) {
    const auto seen = machine.look(&board.parcels[number % courier_slots]);
    const std::uint64_t now = machine.now();  // while the look is under way
    const Parcel parcel = machine.agree(seen, 0);
    if (!is_parcel(parcel, number)) {
      if (now - last < work.patience) continue;
      break;
    }
    if (parcel_address(parcel.from) == 0) break;
    if (is_order(parcel)) {
      const Parcel second = machine.agree(seen, 1);
      const Parcel third = machine.agree(seen, 2);
      if (!is_parcel(second, number) || !is_parcel(third, number)) continue;
      if (!machine.obey(read_order(parcel, second, third))) return false;
      machine.tell(&board.delivered, number++);
      last = machine.now();
      continue;
    }
    Byte* const to = machine.see(parcel_address(parcel.to));
    const Byte* const from = machine.see(parcel_address(parcel.from));
    if (!to || !from) return false;
    machine.bring(to, from, parcel_bytes(parcel));
    machine.tell(&board.delivered, number++);
    last = machine.now();
  }
  machine.tell(&board.left, work.number);
  return true;
}

}  // namespace isthmus::kernel
