#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"

namespace isthmus::wire {

/// Memory in a region that all ranks may take from and give back to: areas of collectives, later windows.
/// Blocks are powers of two from one page up and keep their size class until the job ends. A lock word in
/// shared memory serialises it, so it is for set-up, not for messages.
struct HeapHeader {
  static constexpr unsigned size_classes = 40;
  /// What the lock word says; anything else is taken for `given_up`, which means that somebody has waited in
  /// vain: nobody else does, until the holder lets go after all.
  static constexpr std::uint32_t open = 0, held = 1, given_up = 2;

  std::atomic<std::uint32_t> lock;
  std::atomic<std::uint64_t> used;  ///< bytes handed out for the first time so far
  /// 1 + offset of the first free block of 4096 << class, 0 if none. A free block begins with the next one's.
  std::array<std::atomic<std::uint64_t>, size_classes> free;
};

/// Cheap to copy; owns nothing.
class RegionHeap {
 public:
  RegionHeap() = default;
  /// `memory`: the heap's part of the region, aligned to a page. `patience`: how long to wait for the lock,
  /// which honest ranks hold for less than a microsecond of their own time. One rank of the job waits so long
  /// in vain, and none after it.
  RegionHeap(HeapHeader& header, std::span<std::byte> memory,
             std::chrono::milliseconds patience = std::chrono::seconds(5)) noexcept
      : header_(&header), memory_(memory), patience_(patience) {}

  /// Offset of at least `bytes` of memory, which are not zeroed if the block was used before.
  /// `ErrorClass::no_mem` when full, `ErrorClass::intern` when a rank has died with the lock or holds on to
  /// it.
  Result<std::uint64_t> allocate(std::uint64_t bytes);
  /// Gives back what `allocate(bytes)` returned. Offsets that it cannot have returned are ignored, and so is
  /// everything while the lock cannot be had: the block is lost then.
  void release(std::uint64_t offset, std::uint64_t bytes) noexcept;
  /// The memory at an offset that a peer told: empty span if any byte of it is outside of the heap.
  [[nodiscard]] std::span<std::byte> at(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    if (offset > memory_.size() || bytes > memory_.size() - offset) return {};
    return memory_.subspan(offset, bytes);
  }

 private:
  HeapHeader* header_ = nullptr;
  std::span<std::byte> memory_;
  std::chrono::milliseconds patience_{};
};

}  // namespace isthmus::wire
