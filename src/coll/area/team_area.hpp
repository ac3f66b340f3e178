#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "wire/region.hpp"

/// The memory that a communicator's members share for their collectives, as it lies in the heap of the job's
/// region:
///
///     AreaHeader | Line [depth][ranks] | Finished [ranks] | Presence [ranks] | Node [nodes] |
///     schedule [call_classes] | CallTime [ranks][timed_calls] | slot [depth][ranks] | node slot [2][nodes]
///
/// Every line has one writer, and every slot in a step; only the counters of nodes and of the header have
/// several.
/// Schedules are rank 0's, a rank's times its own.
namespace isthmus::coll {

/// Largest contribution that goes through the area.
inline constexpr std::uint64_t slot_bytes = 16 * 1024;

/// The memory in the region's heap that rank 0 of a communicator has named to the others; an error where
/// there is none, or where what they keep in it would not be aligned.
Result<std::byte*> memory_named_by_rank_0(const wire::RegionHeap& heap, std::uint64_t offset,
                                          std::uint64_t bytes);

/// Ranks up to which everybody looks at everybody's line.
inline constexpr int flat_ranks = 16;
/// Steps that a writer may be ahead of the slowest reader.
inline constexpr std::uint64_t depth = 8;
/// Children of a node in the tree of counters.
inline constexpr int arity = 16;

struct alignas(wire::cache_line) AreaHeader {
  std::atomic<std::uint32_t> members;          ///< that have come, plus those that have gone
  std::atomic<std::uint32_t> waiting_writers;  ///< members that wait for others to finish a step
  std::atomic<std::uint32_t> gpu_members;      ///< members whose `Presence::gpu_since` is not 0
  std::atomic<std::uint64_t> gpu_failed;       ///< how often rooms had been made when a GPU failed in a round
};

/// What a rank says in one step: small contributions lie beside the flag, and cost a single cache line.
struct alignas(wire::cache_line) Line {
  static constexpr std::size_t capacity = 48;

  std::atomic<std::uint64_t> sequence;  ///< the step, stored last
  std::uint64_t call;                   ///< `Call` of the collective, for finding calls that do not match
  std::array<std::byte, capacity> data;
};
static_assert(sizeof(Line) == wire::cache_line && offsetof(Line, data) % alignof(std::max_align_t) == 0);

/// The last step of a rank that is over for it: it reads nothing of that step any more, in any memory.
struct alignas(wire::cache_line) Finished {
  std::atomic<std::uint64_t> sequence;
};

/// How far a rank is with the collectives that may go between GPUs (`Team::all_use_gpu`), which each member
/// counts.
struct alignas(wire::cache_line) Presence {
  std::atomic<std::uint64_t> entered;    ///< the last one, while `gpu_since` is 0
  std::atomic<std::uint64_t> gpu_since;  ///< the first one with data in GPU memory; 0: there was none
};

/// Where up to `arity` ranks or nodes meet. Two sets of counters, by the parity of the meeting.
struct alignas(wire::cache_line) Node {
  std::array<std::atomic<std::uint64_t>, 2> arrived;  ///< in all meetings of that parity
  std::atomic<std::uint64_t> released;                ///< root: the last meeting that is complete
  std::atomic<std::uint64_t> failed;                  ///< root: a meeting in which calls did not match
};

/// Classes of calls that have a schedule each: how they go, as rank 0 says it (`CallSchedule`).
inline constexpr std::size_t call_classes = 256;
using ScheduleWord = std::atomic<std::uint64_t>;
/// The last calls whose times a rank keeps. Rank 0 reads them when all members have begun the call behind, so
/// a member is no more than `2 * depth + 1` of them ahead.
inline constexpr std::uint64_t timed_calls = 32;
static_assert(timed_calls > 2 * depth + 1);

/// When a rank was in a call that was measured, in `ticks()`.
struct CallTime {
  std::atomic<std::uint64_t> began;
  /// The number of the call, of 32 bits, then the ticks that it took, or the most that fit. Stored last.
  std::atomic<std::uint64_t> took;
};

/// Whose slot of a step is `rank`'s. Two ranks change slots in each `round`: who writes has read there last,
/// so a line of cache goes from one to the other once a step, not there and back: 4 KiB reduced on both took
/// 1.9 us for 3.1, 16 KiB 3.6 for 5.5 (Zen 4, far cores). Lines, where one store is all, gained nothing.
constexpr std::uint64_t slot_of(int rank, std::uint64_t ranks, std::uint64_t round) noexcept {
  return static_cast<unsigned>(rank) ^ (ranks == 2 ? round % 2 : 0);
}

/// Identifies a call, so that members that do not do the same find out: collective, root and size.
struct Call {
  static constexpr std::uint64_t of(unsigned collective, int root, std::uint64_t bytes) noexcept {
    return (std::uint64_t{collective} << 56) | (std::uint64_t{static_cast<std::uint16_t>(root)} << 40) |
           (bytes & 0xff'ffff'ffff);
  }
  /// No call, but what a member says that has heard two of them: `Differing` is in its line's data.
  static constexpr std::uint64_t differing = std::uint64_t{0xff} << 56;

  static constexpr unsigned collective(std::uint64_t call) noexcept {
    return static_cast<unsigned>(call >> 56);
  }
  static constexpr int root(std::uint64_t call) noexcept { return static_cast<std::uint16_t>(call >> 40); }
  static constexpr std::uint64_t bytes(std::uint64_t call) noexcept { return call & 0xff'ffff'ffff; }
};

/// Where things lie in an area of so many ranks; all computed, nothing read.
class AreaLayout {
 public:
  explicit AreaLayout(int ranks) noexcept;

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// The part that must be zero before anybody uses it.
  [[nodiscard]] std::uint64_t control_bytes() const noexcept { return slots_; }
  [[nodiscard]] int nodes() const noexcept { return nodes_; }

 private:
  friend class Area;
  int ranks_;
  int nodes_ = 0;
  std::uint64_t lines_ = 0, finished_ = 0, presence_ = 0, node_ = 0, schedules_ = 0, times_ = 0, slots_ = 0,
                node_slots_ = 0, bytes_ = 0;
};

/// An area whose memory has been checked to hold `AreaLayout::bytes()`. Indices are the caller's care.
class Area {
 public:
  Area(const AreaLayout& layout, std::byte* memory) noexcept : layout_(layout), memory_(memory) {}

  [[nodiscard]] int nodes() const noexcept { return layout_.nodes_; }
  [[nodiscard]] AreaHeader& header() const noexcept { return *at<AreaHeader>(0); }
  [[nodiscard]] Line& line(std::uint64_t step, int rank) const noexcept {
    return at<Line>(layout_.lines_)[(step % depth) * ranks() + static_cast<unsigned>(rank)];
  }
  [[nodiscard]] Finished& finished(int rank) const noexcept { return at<Finished>(layout_.finished_)[rank]; }
  [[nodiscard]] Presence& presence(int rank) const noexcept { return at<Presence>(layout_.presence_)[rank]; }
  [[nodiscard]] Node& node(int index) const noexcept { return at<Node>(layout_.node_)[index]; }
  [[nodiscard]] ScheduleWord& schedule(std::size_t call_class) const noexcept {
    return at<ScheduleWord>(layout_.schedules_)[call_class];
  }
  /// Of the `number`-th call that may be measured.
  [[nodiscard]] CallTime& time(int rank, std::uint64_t number) const noexcept {
    return at<CallTime>(layout_.times_)[static_cast<unsigned>(rank) * timed_calls + number % timed_calls];
  }
  /// `slot_bytes` each.
  [[nodiscard]] std::byte* slot(std::uint64_t step, int rank) const noexcept {
    return memory_ + layout_.slots_ +
           ((step % depth) * ranks() + slot_of(rank, ranks(), step / depth)) * slot_bytes;
  }
  [[nodiscard]] std::byte* node_slot(std::uint64_t meeting, int index) const noexcept {
    return memory_ + layout_.node_slots_ +
           ((meeting % 2) * static_cast<unsigned>(layout_.nodes_) + static_cast<unsigned>(index)) *
               slot_bytes;
  }

 private:
  template <class T>
  [[nodiscard]] T* at(std::uint64_t offset) const noexcept {
    return reinterpret_cast<T*>(memory_ + offset);
  }
  [[nodiscard]] std::uint64_t ranks() const noexcept { return static_cast<unsigned>(layout_.ranks_); }

  AreaLayout layout_;
  std::byte* memory_;
};

}  // namespace isthmus::coll
