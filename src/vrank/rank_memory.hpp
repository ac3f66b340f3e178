#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "vrank/memory/heap.hpp"
#include "vrank/rank_space.hpp"

namespace isthmus::vrank {

/// A function that is to be called with `argument`.
struct LaterCall {
  void (*function)(void*);
  void* argument;
  LaterCall* before;  ///< that has been asked for earlier
};

/// What stands in front of a rank's heap, and goes where the rank goes: its memory, and what the C library
/// would keep of it in lists of its process.
struct RankMemory {
  Heap heap;
  std::atomic<std::uintptr_t> next_mapping;  ///< where the next of its mappings may lie
  LaterCall* at_exit;                        ///< the latest, of its copy of the program
  LaterCall* at_thread_exit;
  const char* tied_by;  ///< what keeps the rank in its process for good, as a sentence goes on; null: nothing
  std::uint32_t apart;  ///< not 0: what is allocated is the process's
  void* rank;           ///< what the process keeps of it

  /// In front of the blocks.
  static constexpr std::size_t room = std::size_t{64} << 10;

  [[nodiscard]] static RankMemory* of(const RankSpace& space) noexcept {
    return reinterpret_cast<RankMemory*>(space.heap());  // NOLINT(performance-no-int-to-ptr)
  }
};
static_assert(sizeof(RankMemory) <= RankMemory::room);

/// What the program has that holds ranks which move to other processes: its functions stand in place of the C
/// library's for allocations, mappings and calls at the end, and give each rank its own.
struct OwnMemory {
  /// The ranks of the job have spaces as in a job of `world` ranks. Before the first `open`.
  void (*begin)(std::uint32_t world) noexcept;
  /// Makes the memory of a rank; null where its addresses are taken.
  RankMemory* (*open)(std::uint32_t rank) noexcept;
  /// Of who has this thread-local storage; null: the process.
  RankMemory* (*current)() noexcept;
  /// Where the process's own heap ends now.
  std::uintptr_t (*process_top)() noexcept;
};

}  // namespace isthmus::vrank
