#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/error.hpp"
#include "gpu/memory/pinned_range.hpp"
#include "wire/gpu.hpp"
#include "wire/region.hpp"

namespace isthmus {

/// Memory of the region through which messages go from one rank to another a chunk at a time, or the counters
/// of chunks that go through other memory. The sender takes it, and it is the pair's until the job ends. Owns
/// the pinning here, not the memory.
class StagingArea {
 public:
  StagingArea() = default;

  /// 8 MiB, or the most that can be had; fails with what is short.
  static Result<StagingArea> take(wire::RegionHeap heap);
  /// The header alone, for bytes that go through other memory.
  static Result<StagingArea> take_header(wire::RegionHeap heap);
  /// The one that a peer has taken; nothing where that cannot be.
  static std::optional<StagingArea> at(wire::RegionHeap heap, std::uint64_t offset, std::uint32_t bytes);
  static std::optional<StagingArea> header_at(wire::RegionHeap heap, std::uint64_t offset,
                                              std::uint32_t bytes);

  [[nodiscard]] bool is_there() const noexcept { return !memory_.empty(); }
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] std::uint32_t bytes() const noexcept { return static_cast<std::uint32_t>(memory_.size()); }
  /// Of the data.
  [[nodiscard]] std::uint32_t largest_window() const noexcept {
    return bytes() - static_cast<std::uint32_t>(wire::staging_data);
  }
  [[nodiscard]] wire::StagingHeader& header() const noexcept {
    return *reinterpret_cast<wire::StagingHeader*>(memory_.data());
  }
  [[nodiscard]] std::byte* data() const noexcept { return memory_.data() + wire::staging_data; }
  /// The part that a stream of that window goes through.
  [[nodiscard]] std::span<std::byte> part(std::uint32_t window) const noexcept {
    return memory_.first(wire::staging_data + window);
  }

  /// Bytes of it that are pinned.
  [[nodiscard]] std::size_t pinned() const noexcept {
    return pinned_ && !pinned_->is_over() ? pinned_->size() : 0;
  }
  void unpin() noexcept { pinned_.reset(); }
  void keep(PinnedRange pinned) noexcept { pinned_.emplace(std::move(pinned)); }

 private:
  StagingArea(std::uint64_t offset, std::span<std::byte> memory) : offset_(offset), memory_(memory) {}

  std::uint64_t offset_ = 0;
  std::span<std::byte> memory_;
  std::optional<PinnedRange> pinned_;
};

}  // namespace isthmus
