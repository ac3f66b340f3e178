#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "wire/heap.hpp"
#include "wire/wait.hpp"

/// The memory that the ranks of one host share, as it lies in a region (a memfd, a System V segment or a
/// piece of an ivshmem device). The launcher makes and formats it, ranks inherit it, and everything in it may
/// be written by a peer that is broken or hostile: offsets are computed here from validated numbers, never
/// read from the region after `RegionView::open`.
///
///     RegionHeader | roster: 1 byte a process of the job | RankBlock per slot | doorbells per slot |
///     WaitBoard per slot | ring directory | rings | heap
///
/// Each process that shares the region has a slot in it: with a launcher of one host its rank, otherwise its
/// place among the processes that the roster shows to be here, in order of rank (SR-IOV paper, section
/// III-B).
///
/// Pages are touched only when used; nothing but address space grows with the square of the ranks.
namespace isthmus::wire {

inline constexpr std::size_t cache_line = 64;
inline constexpr std::uint64_t region_magic = 0x6973'7468'6d75'7301;  // "isthmus", 1
inline constexpr std::uint32_t region_version = 22;
inline constexpr std::uint32_t maximum_local_ranks = 16384;
inline constexpr std::uint32_t maximum_world = 1U << 24;
inline constexpr std::size_t lesson_words = 512;
inline constexpr std::size_t call_lesson_words = 2048;
inline constexpr std::size_t eager_lesson_words = 128;
inline constexpr std::size_t gpu_lesson_words = 2560;

using JobKey = std::array<std::uint8_t, 16>;

/// Sizes of the ring between one ordered pair of ranks; powers of two.
struct RingGeometry {
  std::uint32_t cells = 0;       ///< 64-byte cells: headers and messages that fit into one line
  std::uint32_t data_bytes = 0;  ///< the byte ring beside them, for eager payloads and fragments

  /// Smaller rings the more pairs there may be.
  static RingGeometry for_ranks(std::uint32_t local_ranks) noexcept;
  [[nodiscard]] bool valid() const noexcept;
};

/// What the layout of a region follows from.
struct RegionShape {
  std::uint32_t slots = 0;  ///< processes that can share it
  std::uint32_t world = 0;  ///< processes of the job, on all hosts: each has a byte in the roster
  RingGeometry geometry;
  std::uint64_t heap_bytes = 0;

  /// All processes of a job on one host, in memory that costs only what is touched.
  static RegionShape of(std::uint32_t ranks, RingGeometry geometry) noexcept {
    return of(ranks, ranks, geometry);
  }
  static RegionShape of(std::uint32_t slots, std::uint32_t world, RingGeometry geometry) noexcept;
  /// In memory that costs all of it, `bytes` and no more: with `preferred` rings, or the largest smaller ones
  /// that leave a quarter for the heap. `ErrorClass::no_mem` where not even the smallest fit.
  static Result<RegionShape> fitting(std::uint32_t slots, std::uint32_t world, RingGeometry preferred,
                                     std::uint64_t bytes);
};

/// How waiting ranks behave, the same in the whole job because a sender must know whether its peer may sleep.
enum class IdlePolicy : std::uint32_t {
  spin = 1,   ///< every rank has a core of its own: poll, then yield
  sleep = 2,  ///< more ranks than cores: yield, then sleep on a futex; senders ring a doorbell
  nap = 3,    ///< ranks are in several virtual machines, which cannot wake each other: poll, yield, then nap
};

/// Life of a rank, one byte in the roster, written by its owner alone (SR-IOV paper, section III-B), but for
/// `dead`.
enum class RosterState : std::uint8_t {
  absent = 0,
  joined = 1,
  finalized = 2,
  met = 3,   ///< shares the region, but has not taken its slot yet, which depends on who else is here
  dead = 4,  ///< was on another host, and has ended without MPI_Finalize; written by the launcher
};

/// What is known of a rank's process, one word in its block.
enum class Life : std::uint32_t {
  unknown = 0,  ///< it has not joined, or cannot be watched
  locked = 1,   ///< it holds its `launch::LifeLine` as long as it lives; written by the rank
  ended = 2,    ///< the launcher has seen it end; written by the launcher
};

struct alignas(cache_line) RegionHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t region_bytes;
  JobKey key;
  RegionShape shape;
  IdlePolicy idle;
  std::uint32_t cores;        ///< cores that the job may use on this host
  std::uint32_t universe;     ///< MPI_UNIVERSE_SIZE
  std::uint32_t outlives;     ///< 1: the launcher lets ranks live on when others have died
  std::array<char, 64> job;   ///< job name for messages, zero-terminated
  std::array<char, 64> host;  ///< host name as the launcher saw it, zero-terminated

  alignas(cache_line) std::atomic<std::uint32_t> rings_used;  ///< rings handed out so far
  alignas(cache_line)
      std::atomic<std::uint32_t> finalize_count;  ///< ranks that have entered MPI_Finalize; futex word
  alignas(cache_line)
      std::atomic<std::uint32_t> abort_state;  ///< 0, then 1 + rank of the first that called MPI_Abort
  std::atomic<std::int32_t> abort_code;
  /// How often somebody has found that a rank is no more; with it grows `RankBlock::connections` of all, so
  /// that they look.
  std::atomic<std::uint32_t> deaths;
  /// Ranks that have come to a meeting at which some go on in other processes, in all of them so far. Of a
  /// job on several hosts: the number of the last meeting that is over.
  std::atomic<std::uint32_t> meetings;
  /// Held by the process that writes what all ranks of the job have said at a meeting.
  std::atomic<std::uint32_t> meeting_lock;
  alignas(cache_line) HeapHeader heap;
  /// What ranks have learned of the ways of long messages, and tell each other: `SharedLessons` reads it.
  alignas(cache_line) std::array<std::atomic<std::uint64_t>, lesson_words> lessons;
  /// The same of collectives among ranks of this host: `SharedCallLessons` reads it.
  alignas(cache_line) std::array<std::atomic<std::uint64_t>, call_lesson_words> call_lessons;
  /// Of whether messages of middling length go with their envelope: `SharedEagerLessons` reads it.
  alignas(cache_line) std::array<std::atomic<std::uint64_t>, eager_lesson_words> eager_lessons;
  /// Of messages in GPU memory: `SharedGpuLessons` reads it.
  alignas(cache_line) std::array<std::atomic<std::uint64_t>, gpu_lesson_words> gpu_lessons;
};

/// Where a rank runs. The launcher fills in what binding decided, the rank the rest when it joins.
struct PlaceRecord {
  std::uint32_t rank;  ///< in the job
  std::int32_t pid;    ///< as the rank itself sees it
  std::uint32_t uid;
  std::int32_t package;  ///< socket, -1 if not bound to one
  std::int32_t numa;     ///< NUMA node, -1 if not bound to one
  std::int32_t core;     ///< logical core, -1 if not bound to one
  std::int32_t appnum;   ///< MPI_APPNUM: which part of a `:` command line
  std::array<std::uint8_t, 16>
      boot;  ///< the kernel's boot id: differs between virtual machines that share memory
  std::array<std::uint64_t, 6> namespaces;  ///< inode numbers: ipc, mnt, net, pid, user, uts
  std::uint64_t
      probe_address;  ///< where in the rank's own memory `probe_nonce` stands, for trying process_vm_readv
  std::uint64_t probe_nonce;
  std::uint64_t
      nonce;  ///< as in the rank's published `Place`, which proves that it wrote this; 0 without one
};

/// A rank that goes on in another process of its host (src/vrank/process): what the process that it leaves
/// says to the one that takes it over. Both are of the same program and trust each other.
struct Departure {
  static constexpr std::uint32_t none = 0, asked = 1, taken = 2, failed = 3;
  std::atomic<std::uint32_t> state;  ///< futex word
  std::uint32_t process;             ///< where to: the slot of the first rank that it has been started with
  std::uint32_t worker;              ///< and its worker
  std::uint32_t steps;               ///< how many
  std::uint64_t address;             ///< of the steps, in the process that the rank leaves
};

struct alignas(cache_line) RankBlock {
  std::atomic<std::uint32_t> connections;  ///< rings announced to this rank; grows
  std::atomic<std::uint64_t> gpu;  ///< whose memory the rank has named last, by a hash of its UUID; 0: none
  std::atomic<Life> life;
  std::atomic<std::uint32_t> leaving;  ///< 1 from when the rank has counted itself in `finalize_count`
  /// 1 + the offset in the heap of the address of the rank's network port: its length, 8 bytes, then as many
  /// bytes; 0: none is published here.
  std::atomic<std::uint64_t> port;
  std::atomic<std::uint64_t>
      claims;  ///< 1 + the offset in the heap of the directory of `Claims`; 0: none yet
  alignas(cache_line) std::atomic<std::uint32_t> sleeping;  ///< 1 while the rank sleeps on this futex word
  /// Where several ranks are one process: 1 + the slot whose `process_wakes` it sleeps on; 0: on `sleeping`.
  std::atomic<std::uint32_t> sleeps_with;
  std::atomic<std::uint32_t> process_wakes;  ///< how often somebody has woken who sleeps on it; futex word
  /// How a rank that shares its process with others has ended: `Ending`; 0: it has not, or is a process of
  /// its own.
  std::atomic<std::uint32_t> ending;
  alignas(cache_line) PlaceRecord place;
  /// 1 + the slot of the first rank that the rank's process has been started with; 0: the launcher has
  /// started it in the process where it is; `elsewhere`: that is on another host.
  alignas(cache_line) std::atomic<std::uint32_t> process;
  /// Of the process that has been started with this rank as its first: how often there was something for it
  /// to look at; futex word.
  std::atomic<std::uint32_t> calls;
  Departure departure;
  // Where ranks go on on other hosts.
  /// The meeting that the rank, which is on this host, has come to last, and the last of which the others
  /// have been told what it has said.
  alignas(cache_line) std::atomic<std::uint32_t> came_to;
  std::atomic<std::uint32_t> told_of;
  std::array<std::atomic<std::uint64_t>, 4> said;
  /// What the rank has said, wherever it is, at the last two meetings, by their numbers.
  std::array<std::array<std::atomic<std::uint64_t>, 4>, 2> heard;

  static constexpr std::uint32_t elsewhere = ~std::uint32_t{0};
};

/// How one of several ranks of a process has ended, one word in its block, written by that process.
struct Ending {
  static constexpr std::uint32_t has_ended = 0x100;  ///< by itself, with the exit status in the low byte
  static constexpr std::uint32_t was_killed =
      0x200;  ///< its turn it was when the signal in the low byte came
};

/// Offsets in bytes from the region's start, all multiples of a cache line.
struct RegionLayout {
  RegionShape shape;
  std::uint64_t roster = 0, blocks = 0, doorbells = 0, waits = 0, directory = 0, rings = 0, heap = 0;
  std::uint64_t doorbell_words = 0;  ///< 64-bit words a rank
  std::uint64_t ring_bytes = 0;
  std::uint64_t bytes = 0;

  /// Fails with `ErrorClass::arg` for zero or too many slots, fewer processes than slots, and for a geometry
  /// or a heap that is not valid.
  static Result<RegionLayout> make(const RegionShape& shape);
};

/// A region that has been checked. Cheap to copy; does not own the mapping.
class RegionView {
 public:
  /// What the launcher writes at the start of a zero-filled region.
  struct Format {
    JobKey key{};
    IdlePolicy idle = IdlePolicy::spin;
    std::uint32_t cores = 1;
    std::uint32_t universe = 1;
    bool outlives = false;
    const char* job = "";
    const char* host = "";
  };

  /// Writes the header into zero-filled `memory` of at least `layout.bytes`.
  static RegionView format(std::span<std::byte> memory, const RegionLayout& layout, const Format& format);
  /// Checks everything that later accesses rely on: magic, version, sizes, geometry, alignment.
  static Result<RegionView> open(std::span<std::byte> memory);

  [[nodiscard]] const RegionLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] std::uint32_t slots() const noexcept { return layout_.shape.slots; }
  [[nodiscard]] std::uint32_t world() const noexcept { return layout_.shape.world; }
  [[nodiscard]] const RingGeometry& geometry() const noexcept { return layout_.shape.geometry; }
  [[nodiscard]] RegionHeader& header() const noexcept { return *at<RegionHeader>(0); }
  /// `rank` in the job, below `world()`.
  [[nodiscard]] std::atomic<RosterState>& roster(std::uint32_t rank) const noexcept {
    return at<std::atomic<RosterState>>(layout_.roster)[rank];
  }
  [[nodiscard]] std::span<const std::atomic<RosterState>> roster() const noexcept {
    return {at<std::atomic<RosterState>>(layout_.roster), world()};
  }
  /// `slot` below `slots()`, here and in what follows.
  [[nodiscard]] RankBlock& block(std::uint32_t slot) const noexcept {
    return at<RankBlock>(layout_.blocks)[slot];
  }
  /// One bit per sending slot that has written to `slot` since it last looked.
  [[nodiscard]] std::span<std::atomic<std::uint64_t>> doorbells(std::uint32_t slot) const noexcept {
    return {at<std::atomic<std::uint64_t>>(layout_.doorbells) + slot * layout_.doorbell_words,
            layout_.doorbell_words};
  }
  /// What the rank in `slot` waits for, where that has taken long.
  [[nodiscard]] WaitBoard& wait_board(std::uint32_t slot) const noexcept {
    return at<WaitBoard>(layout_.waits)[slot];
  }
  /// 1 + number of the ring from each slot to `slot`, 0 where there is none yet.
  [[nodiscard]] std::span<std::atomic<std::uint32_t>> directory(std::uint32_t slot) const noexcept {
    return {at<std::atomic<std::uint32_t>>(layout_.directory) + std::uint64_t{slot} * slots(), slots()};
  }
  /// Memory of ring `number`, which must be below `ring_capacity()`.
  [[nodiscard]] std::span<std::byte> ring(std::uint32_t number) const noexcept {
    return memory_.subspan(layout_.rings + number * layout_.ring_bytes, layout_.ring_bytes);
  }
  /// Wakes the rank in `slot` if it sleeps. Who has written what it waits for fences before.
  void wake(std::uint32_t slot) const noexcept;
  [[nodiscard]] RegionHeap heap() const noexcept {
    return {header().heap, memory_.subspan(layout_.heap, layout_.shape.heap_bytes)};
  }
  [[nodiscard]] std::uint64_t ring_capacity() const noexcept {
    return std::uint64_t{slots()} * (slots() - 1);
  }

 private:
  RegionView(std::span<std::byte> memory, const RegionLayout& layout) : memory_(memory), layout_(layout) {}
  template <class T>
  [[nodiscard]] T* at(std::uint64_t offset) const noexcept {
    return reinterpret_cast<T*>(memory_.data() + offset);
  }

  std::span<std::byte> memory_;
  RegionLayout layout_;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<RosterState>) == 1);

}  // namespace isthmus::wire
