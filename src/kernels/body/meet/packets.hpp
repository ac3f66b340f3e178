#pragma once

#include <cstdint>

#include "kernels/body/meet/unit.hpp"

/// Short data: packets of 16 bytes, 8 of data and the number of the round behind them, written by one store.
/// So nobody needs a fence.
///
/// Two halves serve in turn. In each round each member sends at least one packet to each other one, and a
/// block's threads meet at its end: who has heard all others in a round knows that they have read what the
/// round before it has brought, and so that half is free.
namespace isthmus::kernel {

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
