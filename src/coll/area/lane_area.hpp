#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "coll/area/team_area.hpp"

/// The memory that a communicator's members share for nonblocking and persistent collectives, as it lies in
/// the heap of the job's region:
///
///     LaneHeader | LaneMember [ranks] | schedule [lane_schedules] | stripe | stripe of each persistent
///     operation | slots of the stripes
///     stripe: Finished [ranks] | Line [depth][ranks] | CallTime [ranks][4 * lead]
///
/// Schedules are rank 0's: one for each class of nonblocking calls, then one for each persistent operation.
/// A rank's times are its own, of the last calls that were measured.
/// A line's sequence is `said(step, phase)`: what a rank says grows within a step, up to `last_phase`.
namespace isthmus::coll {

/// Nonblocking collectives that can be under way: the next one waits for the oldest. No member can know
/// alike with all others which of them are complete, so none can turn to messages instead.
inline constexpr std::uint64_t nonblocking_depth = 128;
/// The same where a rank's part takes a slot of `slot_bytes`.
inline constexpr std::uint64_t long_depth = 16;
/// The same of calls whose way is learned: what rank 0 says of them takes effect so many calls later, and
/// more would take longer to learn.
inline constexpr std::uint64_t live_depth = 8;
/// Starts that a rank may be ahead with one persistent operation, less one.
inline constexpr std::uint64_t persistent_depth = 4;
static_assert(std::has_single_bit(nonblocking_depth) && std::has_single_bit(long_depth) &&
              std::has_single_bit(persistent_depth));
/// Persistent operations of a communicator that have a stripe; those that are made later take messages.
inline constexpr std::uint32_t persistent_stripes = 32;
/// What a rank's part may have in any step.
inline constexpr std::uint64_t short_slot_bytes = 1024;

inline constexpr std::size_t lane_schedules = call_classes + persistent_stripes;

inline constexpr std::uint64_t last_phase = 3;
constexpr std::uint64_t said(std::uint64_t step, std::uint64_t phase) noexcept {
  return step * (last_phase + 1) + phase;
}

struct alignas(wire::cache_line) LaneHeader {
  /// The table, `ISTHMUS_COLLECTIVE_WAY` of rank 0, or what calls take.
  static constexpr std::uint32_t by_table = 0, forced = 1, learned = 2;
  std::atomic<std::uint32_t> members;  ///< that have come, plus those that have gone
  std::atomic<std::uint32_t> waiting;  ///< collectives of members that sleep until a line is free
  std::atomic<std::uint32_t> ways;     ///< who chooses them; before all come
};

struct alignas(wire::cache_line) LaneMember {
  static constexpr std::uint32_t unknown = 0, no = 1, yes = 2;
  std::atomic<std::uint32_t> reaches_all;  ///< whether it reads and writes the memory of all others
};

/// Where one sequence of steps has its lines. Indices are the caller's care.
struct StripeMemory {
  std::uint64_t depth;  ///< a power of two
  std::uint64_t ranks;
  Finished* finished;
  Line* lines;
  CallTime* times;
  std::byte* short_slots;
  std::byte* long_slots;  ///< null: there are none

  /// How many steps a call whose way is learned may be ahead of the slowest member.
  [[nodiscard]] std::uint64_t lead() const noexcept { return std::min(depth, live_depth); }
  /// Of the `number`-th call whose way is learned. Rank 0 looks for it no longer than 2 * `lead` calls, and
  /// members are no more than `lead` ahead of it.
  [[nodiscard]] CallTime& time(int rank, std::uint64_t number) const noexcept {
    const std::uint64_t kept = times_kept(depth);
    return times[static_cast<unsigned>(rank) * kept + number % kept];
  }
  [[nodiscard]] static constexpr std::uint64_t times_kept(std::uint64_t depth) noexcept {
    return 4 * std::min(depth, live_depth);
  }
  /// The lines of all ranks in that step, by rank.
  [[nodiscard]] Line* lines_of(std::uint64_t step) const noexcept {
    return lines + (step & (depth - 1)) * ranks;
  }
  [[nodiscard]] Line& line(std::uint64_t step, int rank) const noexcept { return lines_of(step)[rank]; }
  /// Room for `bytes` of what `rank` says.
  [[nodiscard]] std::byte* room(std::uint64_t step, int rank, std::uint64_t bytes) const noexcept {
    return bytes <= Line::capacity ? line(step, rank).data.data() : slot(step, rank, bytes);
  }
  /// The same for more than a line has room for.
  [[nodiscard]] std::byte* slot(std::uint64_t step, int rank, std::uint64_t bytes) const noexcept {
    if (bytes <= short_slot_bytes)
      return short_slots + ((step & (depth - 1)) * ranks + static_cast<unsigned>(rank)) * short_slot_bytes;
    return long_slots + (step % long_depth * ranks + static_cast<unsigned>(rank)) * slot_bytes;
  }
};

/// Where things lie in the area of so many ranks; all computed, nothing read.
class LaneArea {
 public:
  explicit LaneArea(int ranks) noexcept : ranks_(static_cast<std::uint64_t>(ranks)) {}

  /// The part that must be zero before anybody uses it.
  [[nodiscard]] std::uint64_t control_bytes() const noexcept {
    return stripes_at() + stripe_bytes(nonblocking_depth) +
           persistent_stripes * stripe_bytes(persistent_depth);
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return control_bytes() + ranks_ * (nonblocking_depth * short_slot_bytes + long_depth * slot_bytes +
                                       persistent_stripes * persistent_depth * short_slot_bytes);
  }

  void put_at(std::byte* memory) noexcept { memory_ = memory; }
  [[nodiscard]] LaneHeader& header() const noexcept { return *reinterpret_cast<LaneHeader*>(memory_); }
  [[nodiscard]] LaneMember& member(int rank) const noexcept {
    return reinterpret_cast<LaneMember*>(memory_ + sizeof(LaneHeader))[rank];
  }
  [[nodiscard]] ScheduleWord& schedule(std::size_t index) const noexcept {
    return reinterpret_cast<ScheduleWord*>(memory_ + schedules_at())[index];
  }
  [[nodiscard]] StripeMemory nonblocking() const noexcept;
  [[nodiscard]] StripeMemory persistent(std::uint32_t number) const noexcept;

 private:
  [[nodiscard]] std::uint64_t schedules_at() const noexcept {
    return sizeof(LaneHeader) + ranks_ * sizeof(LaneMember);
  }
  [[nodiscard]] std::uint64_t stripes_at() const noexcept {
    static_assert(lane_schedules * sizeof(ScheduleWord) % wire::cache_line == 0);
    return schedules_at() + lane_schedules * sizeof(ScheduleWord);
  }
  [[nodiscard]] std::uint64_t stripe_bytes(std::uint64_t depth) const noexcept {
    return ranks_ *
           (sizeof(Finished) + depth * sizeof(Line) + StripeMemory::times_kept(depth) * sizeof(CallTime));
  }
  [[nodiscard]] StripeMemory stripe(std::uint64_t control, std::uint64_t depth) const noexcept {
    static_assert(StripeMemory::times_kept(persistent_depth) * sizeof(CallTime) % wire::cache_line == 0);
    const std::uint64_t lines = control + ranks_ * sizeof(Finished);
    return {.depth = depth,
            .ranks = ranks_,
            .finished = reinterpret_cast<Finished*>(memory_ + control),
            .lines = reinterpret_cast<Line*>(memory_ + lines),
            .times = reinterpret_cast<CallTime*>(memory_ + lines + depth * ranks_ * sizeof(Line)),
            .short_slots = nullptr,
            .long_slots = nullptr};
  }

  std::uint64_t ranks_;
  std::byte* memory_ = nullptr;
};

}  // namespace isthmus::coll
