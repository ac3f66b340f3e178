#pragma once

#include <cstdint>

#include "kernels/body/meet/packets.hpp"
#include "kernels/body/order.hpp"
#include "kernels/body/reduce_list.hpp"

/// Short collectives that the host synchronises. Members agree on the hosts that all take part, then each has
/// its part done by its GPU: by the courier, if one is out, or by a kernel of one block. Data goes to the
/// receiver's room in packets, as in meet/packets.hpp. A member has read what others have sent it when it is
/// done, and tells that on the host before the next one. So a room needs no second half, and who only
/// sends waits for nobody.
namespace isthmus::kernel {

static_assert(most_order_members == meet_members && order_unit == meet_unit &&
              2 * order_unit == meet_packets * sizeof(Packet));

/// Units of elements combined by the kernel of that number in reduce_list.hpp. A function that is called, for
/// the courier's sake: pointers to functions cost it registers, which it needs to have many loads under way.
ISTHMUS_DEVICE_CALLED MeetUnit combine_by_number(std::uint32_t number, MeetUnit left, MeetUnit right) {
  std::uint32_t i = 0;
#define ISTHMUS_COMBINE_(operation, type, operation_name, type_name) \
  if (number == i++) return combined_units<type, operation>(left, right);
  ISTHMUS_REDUCE_KERNELS(ISTHMUS_COMBINE_)
#undef ISTHMUS_COMBINE_
  return left;
}

/// 8 bytes or fewer, past this multiprocessor's cache: the memory changes while a courier stays.
ISTHMUS_DEVICE_FUNCTION std::uint64_t load_fresh(const Byte* from, std::uint64_t left) {
  const auto address = reinterpret_cast<std::uint64_t>(from);
  if (left >= 8 && address % 8 == 0) return device::detail::load_unit<true, std::uint64_t>(from);
  if (left == 4 && address % 4 == 0) return device::detail::load_unit<true, std::uint32_t>(from);
  std::uint64_t word = 0;
  for (std::uint32_t i = 0; i < 8 && i < left; ++i)
    word |= std::uint64_t{device::detail::load_unit<true, Byte>(from + i)} << (8 * i);
  return word;
}

/// One of the threads that carry out an order, of `lanes`.
class OrderPart {
 public:
  ISTHMUS_DEVICE_FUNCTION OrderPart(const MeetTable& table, const MeetOrder& order, std::uint32_t lane,
                                    std::uint32_t lanes)
      : table_(table), order_(order), lane_(lane), lanes_(lanes) {}

  /// False if it has been told that nobody waits any more.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool run() const {
    for (std::uint32_t i = lane_; i * meet_unit < order_.bytes; i += lanes_)
      send(i);
    bool ok = true;
    for (std::uint32_t i = lane_; i * meet_unit < order_.bytes && ok; i += lanes_)
      ok = order_.combine != 0 ? take_combined(i) : take(i);
    return ok;
  }

 private:
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION static bool has(std::uint8_t members, std::uint32_t i) {
    return (members >> i & 1U) != 0;
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION Byte* block_for(std::uint32_t to) const {
    return order_.send_differs ? order_.send + std::uint64_t{to} * order_.bytes : order_.send;
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION Byte* place_for(std::uint32_t from) const {
    return order_.take_differs ? order_.receive + std::uint64_t{from} * order_.bytes : order_.receive;
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool has_second(std::uint32_t i) const {
    return i * meet_unit + 8 < order_.bytes;
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION MeetUnit own(const Byte* block, std::uint32_t i) const {
    const std::uint32_t at = i * meet_unit;
    return {{load_fresh(block + at, order_.bytes - at),
             has_second(i) ? load_fresh(block + at + 8, order_.bytes - at - 8) : 0}};
  }
  ISTHMUS_DEVICE_FUNCTION void put(Byte* block, std::uint32_t i, const MeetUnit& unit) const {
    store_unit({block, order_.bytes}, std::uint64_t{i} * meet_unit, unit);
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION static Packet* packets(Byte* room, std::uint32_t sender,
                                                               std::uint32_t i) {
    return reinterpret_cast<Packet*>(room) + (std::uint64_t{sender} * order_units + i) * meet_packets;
  }

  /// Unit `i`, beginning with the next member.
  ISTHMUS_DEVICE_FUNCTION void send(std::uint32_t i) const {
    for (std::uint32_t k = 1; k < table_.members; ++k) {
      const std::uint32_t to =
          table_.rank + k < table_.members ? table_.rank + k : table_.rank + k - table_.members;
      if (!has(order_.send_to, to)) continue;
      const MeetUnit unit = own(block_for(to), i);
      Packet* const there = packets(table_.rooms[to], table_.rank, i);
      device::detail::store_line(there, {order_.round, unit.words[0]});
      if (has_second(i)) device::detail::store_line(there + 1, {order_.round, unit.words[1]});
    }
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool await(const Packet* packet, std::uint64_t& word) const {
    for (std::uint32_t looks = 1;; ++looks) {
      const Packet seen = device::detail::load_line(packet);
      word = seen.word;
      if (seen.value == order_.round) return true;
      if (looks % device::detail::looks_per_question == 0 &&
          device::detail::load_word(reinterpret_cast<const device::u64*>(table_.ended)) != 0)
        return false;
      device::detail::pause();
    }
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool hear(std::uint32_t from, std::uint32_t i, MeetUnit& unit) const {
    const Packet* const here = packets(table_.rooms[table_.rank], from, i);
    return await(here, unit.words[0]) && (!has_second(i) || await(here + 1, unit.words[1]));
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool take(std::uint32_t i) const {
    for (std::uint32_t from = 0; from < table_.members; ++from) {
      if (!has(order_.take_from, from)) continue;
      Byte* const to = place_for(from);
      MeetUnit unit{};
      if (from == table_.rank) {
        const Byte* const block = block_for(from);
        if (block == to) continue;
        unit = own(block, i);
      } else if (!hear(from, i, unit)) {
        return false;
      }
      put(to, i, unit);
    }
    return true;
  }
  /// In the order of ranks.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool take_combined(std::uint32_t i) const {
    MeetUnit all{};
    bool is_first = true;
    for (std::uint32_t from = 0; from < table_.members; ++from) {
      if (!has(order_.take_from, from)) continue;
      MeetUnit unit{};
      if (from == table_.rank)
        unit = own(block_for(from), i);
      else if (!hear(from, i, unit))
        return false;
      all = is_first ? unit : combine_by_number(order_.combine - 1U, all, unit);
      is_first = false;
    }
    if (!is_first) put(order_.receive, i, all);
    return true;
  }

  const MeetTable& table_;
  const MeetOrder& order_;
  const std::uint32_t lane_;
  const std::uint32_t lanes_;
};

}  // namespace isthmus::kernel
