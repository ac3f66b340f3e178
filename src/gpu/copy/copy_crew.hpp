#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/stream_copy.hpp"
#include "place/cpu_set.hpp"

namespace isthmus {

/// Threads of the library's own that help the caller to copy long runs between pageable and pinned memory,
/// each on a processor that no rank is bound to. 64 MiB between pageable memory and a GPU go at 8.3 GB/s
/// without helpers, with 1, 2, 3, 6, 8 of them at 17, 21, 28, 32, 30, and between managed memory on a host
/// and on a GPU at 8.8, 19, 25, 31, 38, 40 (H100 with 32 processors, two ranks; its link carries 55).
///
/// They are started with the first long copy. After 100 us without one they sleep. One caller at a time.
class CopyCrew {
 public:
  static constexpr std::size_t most_helpers = 8;
  /// Shorter copies are the caller's alone: to share one takes some microseconds.
  static constexpr std::size_t least_shared = std::size_t{256} << 10U;

  /// `spare`: where helpers run. A helper for each processor, up to `helpers`.
  CopyCrew(CpuSet spare, std::size_t helpers);
  CopyCrew(const CopyCrew&) = delete;
  CopyCrew& operator=(const CopyCrew&) = delete;
  /// Waits until all have ended.
  ~CopyCrew();

  /// As `copy_past_cache`; done when it returns.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes);

  /// How many are there to help. Those that could not be started, or not be kept off the ranks' processors,
  /// are none.
  [[nodiscard]] std::size_t helpers() const noexcept { return at_work_.load(std::memory_order_relaxed); }
  /// Copies that were shared.
  [[nodiscard]] std::uint64_t shared() const noexcept { return shared_; }

 private:
  /// A copy is cut into blocks, which caller and helpers take from its end to its beginning.
  static constexpr std::size_t block = std::size_t{64} << 10U;

  void start();
  void run();
  /// Copies blocks until none is left.
  void work() noexcept;

  const CpuSet spare_;
  const std::size_t wanted_;
  bool started_ = false;
  std::uint64_t shared_ = 0;
  std::vector<std::jthread> threads_;
  std::atomic<std::size_t> at_work_{0};

  // The copy. It is written while no block of the one before is left, so that who takes a block has read what
  // belongs to it.
  std::atomic<std::byte*> to_{nullptr};
  std::atomic<const std::byte*> from_{nullptr};
  std::atomic<std::size_t> bytes_{0};
  /// Number of the copy << 32 | blocks that nobody has taken.
  alignas(64) std::atomic<std::uint64_t> open_{0};
  alignas(64) std::atomic<std::uint32_t> copied_{0};  ///< blocks
  alignas(64) std::atomic<std::uint32_t> calls_{0};   ///< counts copies; helpers sleep on it
  std::atomic<std::uint32_t> sleeping_{0};
  std::atomic<bool> ending_{false};
};

}  // namespace isthmus
