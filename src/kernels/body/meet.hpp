#pragma once

#include <isthmus/device_mail.cuh>

#include <cstdint>
#include <cstring>

#include "kernels/body/reduce.hpp"

/// Collectives by one launch a member: kernels of all members meet in each other's memory, and no host has a
/// part in it. Each member has a room in the memory of its GPU, which all others have mapped. What is sent
/// goes to the receiver's room in packets of 16 bytes, 8 of data and the number of the round behind them,
/// written by one store: so nobody needs a fence, and a receiver looks at its own memory alone.
///
/// Blocks do not wait for other blocks of their grid, but for those of their number at the other members. So
/// they need not all run at once, as long as GPUs begin with the lowest numbers. Rounds are counted for each
/// block, in the room: no number comes from the host, and a captured launch is right at each replay.
///
/// Two halves serve in turn. In each round each member sends at least one packet to each other one, and a
/// block's threads meet at its end: who has heard all others in a round knows that they have read what the
/// round before it has brought, and so that half is free.
namespace isthmus::kernel {

inline constexpr std::uint32_t meet_members = 8;
inline constexpr std::uint32_t meet_threads = 512;
inline constexpr std::uint32_t meet_blocks = 128;
/// Bytes of data of two packets, and how many of these a block sends to each member in a round.
inline constexpr std::uint32_t meet_unit = 16;
inline constexpr std::uint32_t meet_units = 512;
/// Of a room, before the packets: the blocks' rounds.
inline constexpr std::uint64_t meet_header = 1024;

using Packet = device::Line;
inline constexpr std::uint64_t meet_packets = 2;  ///< of a unit

[[nodiscard]] ISTHMUS_ANYWHERE constexpr std::uint64_t meet_room_bytes(std::uint32_t members) {
  return meet_header + std::uint64_t{meet_blocks} * 2 * members * meet_units * meet_packets * sizeof(Packet);
}
static_assert(meet_header >= meet_blocks * sizeof(std::uint64_t));

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
  std::uint32_t reserved;
};

[[nodiscard]] ISTHMUS_ANYWHERE constexpr std::uint32_t meet_grid(std::uint64_t longest) {
  const std::uint64_t blocks = (longest + meet_unit * meet_units - 1) / (meet_unit * meet_units);
  return blocks < 1 ? 1 : blocks > meet_blocks ? meet_blocks : static_cast<std::uint32_t>(blocks);
}

/// 8 bytes of data, or fewer at the end of it, as a number.
ISTHMUS_DEVICE_FUNCTION std::uint64_t load_word(const MeetSide& from, std::uint64_t at) {
  return device::detail::load_some(from.at + at, from.bytes - at);
}
ISTHMUS_DEVICE_FUNCTION void store_word(const MeetSide& to, std::uint64_t at, std::uint64_t word) {
  device::detail::store_some(to.at + at, to.bytes - at, word);
}

/// Two words of data.
struct MeetUnit {
  std::uint64_t words[2];
};
ISTHMUS_DEVICE_FUNCTION MeetUnit load_unit(const MeetSide& from, std::uint64_t at) {
  return {{at < from.bytes ? load_word(from, at) : 0, at + 8 < from.bytes ? load_word(from, at + 8) : 0}};
}
ISTHMUS_DEVICE_FUNCTION void store_unit(const MeetSide& to, std::uint64_t at, const MeetUnit& unit) {
  if (at < to.bytes) store_word(to, at, unit.words[0]);
  if (at + 8 < to.bytes) store_word(to, at + 8, unit.words[1]);
}

/// One block's side of all rounds.
class Meeting {
 public:
  ISTHMUS_DEVICE_FUNCTION explicit Meeting(const MeetArguments& work)
      : work_(work), block_(device::block_number()) {
    round_ = device::detail::load_word(rounds() + block_);
  }

  /// The first unit of the block's part of the data, and where the next one begins behind it.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION std::uint64_t first() const {
    return std::uint64_t{block_} * meet_units;
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION static std::uint64_t step() {
    return std::uint64_t{device::block_count()} * meet_units;
  }
  /// Whether there is a round for the part from that unit on: one at least.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool has_round(std::uint64_t first) const {
    return first * meet_unit < work_.longest || first == std::uint64_t{block_} * meet_units;
  }

  ISTHMUS_DEVICE_FUNCTION void begin_round() { ++round_; }
  /// False for all threads of the block where one has been told that nobody waits any more.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool end_round(bool ok) const { return device::ByBlock().all(ok); }
  ISTHMUS_DEVICE_FUNCTION void end() const {
    if (device::ByBlock().index() == 0) device::detail::store_word(rounds() + block_, round_);
  }

  /// Unit `i` of the part from `first` on: to every other member, beginning with the next one.
  template <class Side>
  ISTHMUS_DEVICE_FUNCTION void send(std::uint64_t first, std::uint32_t i, Side side) const {
    const std::uint64_t at = (first + i) * meet_unit;
    for (std::uint32_t k = 1; k < work_.members; ++k) {
      const std::uint32_t to =
          work_.rank + k < work_.members ? work_.rank + k : work_.rank + k - work_.members;
      const MeetSide from = side(to);
      if (i != 0 && at >= from.bytes) continue;
      const MeetUnit unit = load_unit(from, at);
      Packet* const there = packets(work_.rooms[to], work_.rank, i);
      device::detail::store_line(there, {round_, unit.words[0]});
      if (at + 8 < from.bytes) device::detail::store_line(there + 1, {round_, unit.words[1]});
    }
  }
  /// What has come from a member, of `bytes` bytes in all.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool receive(std::uint64_t first, std::uint32_t i, std::uint32_t from,
                                                     std::uint64_t bytes, MeetUnit& unit) const {
    const std::uint64_t at = (first + i) * meet_unit;
    if (i != 0 && at >= bytes) return true;
    const Packet* const here = packets(work_.rooms[work_.rank], from, i);
    return await(here, unit.words[0]) && (at + 8 >= bytes || await(here + 1, unit.words[1]));
  }

 private:
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION device::u64* rounds() const {
    return reinterpret_cast<device::u64*>(work_.rooms[work_.rank]);
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION Packet* packets(Byte* room, std::uint32_t sender,
                                                        std::uint32_t i) const {
    const std::uint64_t half = std::uint64_t{block_} * 2 + round_ % 2;
    return reinterpret_cast<Packet*>(room + meet_header) +
           ((half * work_.members + sender) * meet_units + i) * meet_packets;
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool await(const Packet* packet, std::uint64_t& word) const {
    for (std::uint32_t looks = 1;; ++looks) {
      const Packet seen = device::detail::load_line(packet);
      word = seen.word;
      if (seen.value == round_) return true;
      if (looks % device::detail::looks_per_question == 0 && device::detail::load_word(work_.ended) != 0)
        return false;
      device::detail::pause();
    }
  }

  const MeetArguments& work_;
  const std::uint32_t block_;
  device::u64 round_ = 0;
};

/// One round in which data goes to where it belongs.
template <class Out>
ISTHMUS_DEVICE_FUNCTION bool meet_round(Meeting& meeting, const MeetArguments& work, std::uint64_t first,
                                        Out out) {
  const device::ByBlock by;
  const auto has = [&](std::uint32_t i) {
    return i == 0 || (i < meet_units && (first + i) * meet_unit < work.longest);
  };
  meeting.begin_round();
  for (std::uint32_t i = by.index(); has(i); i += by.size())
    meeting.send(first, i, out);
  bool ok = true;
  for (std::uint32_t i = by.index(); has(i); i += by.size()) {
    for (std::uint32_t from = 0; from < work.members; ++from) {
      const MeetSide to = work.in[from];
      MeetUnit unit{};
      if (from == work.rank) {
        if (out(from).at == to.at) continue;
        unit = load_unit(out(from), (first + i) * meet_unit);
      } else {
        ok = ok && meeting.receive(first, i, from, to.bytes, unit);
      }
      if (ok) store_unit(to, (first + i) * meet_unit, unit);
    }
  }
  return meeting.end_round(ok);
}

/// Each member's `out` to the others' `in`.
ISTHMUS_DEVICE_FUNCTION void meet_move(const MeetArguments& work) {
  Meeting meeting(work);
  const auto out = [&](std::uint32_t to) { return work.out[to]; };
  for (std::uint64_t first = meeting.first(); meeting.has_round(first); first += Meeting::step())
    if (!meet_round(meeting, work, first, out)) return;
  meeting.end();
}

template <class T, class Operation>
ISTHMUS_DEVICE_FUNCTION MeetUnit combined_units(const MeetUnit& left, const MeetUnit& right) {
  if constexpr (Element<T>::has_vectors) {
    Vector a;
    Vector b;
    std::memcpy(&a, &left, sizeof a);
    std::memcpy(&b, &right, sizeof b);
    const Vector made = combined<T, Operation>(a, b);
    MeetUnit unit;
    std::memcpy(&unit, &made, sizeof unit);
    return unit;
  } else {
    alignas(meet_unit) Byte a[meet_unit];
    alignas(meet_unit) Byte b[meet_unit];
    std::memcpy(a, &left, sizeof a);
    std::memcpy(b, &right, sizeof b);
    ISTHMUS_UNROLL
    for (std::uint32_t at = 0; at < meet_unit; at += Element<T>::extent)
      Element<T>::template put<true>(a + at, Operation::of(Element<T>::template get<true>(a + at),
                                                           Element<T>::template get<true>(b + at)));
    MeetUnit unit;
    std::memcpy(&unit, a, sizeof unit);
    return unit;
  }
}

/// What all members have for this one, combined in the order of ranks.
template <class T, class Operation>
ISTHMUS_DEVICE_FUNCTION void meet_reduce(const MeetArguments& work) {
  const device::ByBlock by;
  Meeting meeting(work);
  const auto has = [&](std::uint64_t first, std::uint32_t i) {
    return i == 0 || (i < meet_units && (first + i) * meet_unit < work.longest);
  };
  for (std::uint64_t first = meeting.first(); meeting.has_round(first); first += Meeting::step()) {
    meeting.begin_round();
    for (std::uint32_t i = by.index(); has(first, i); i += by.size())
      meeting.send(first, i, [&](std::uint32_t to) { return work.out[to]; });
    bool ok = true;
    for (std::uint32_t i = by.index(); has(first, i); i += by.size()) {
      const std::uint64_t at = (first + i) * meet_unit;
      MeetUnit sum{};
      for (std::uint32_t from = 0; from < work.members; ++from) {
        MeetUnit unit{};
        if (from == work.rank)
          unit = load_unit(work.out[from], at);
        else
          ok = ok && meeting.receive(first, i, from, work.result.bytes, unit);
        sum = from == 0 ? unit : combined_units<T, Operation>(sum, unit);
      }
      if (ok) store_unit(work.result, at, sum);
    }
    if (!meeting.end_round(ok)) return;
    // A thread sends on what it has computed itself.
    if (work.shared != 0 && !meet_round(meeting, work, first, [&](std::uint32_t) { return work.result; }))
      return;
  }
  meeting.end();
}

}  // namespace isthmus::kernel
