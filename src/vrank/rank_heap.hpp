#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"

namespace isthmus::vrank {

/// Memory that a rank allocates, in addresses of its own, with all that is known of it among it: a copy of
/// the bytes at the same addresses in another process is the same heap.
///
/// One thread allocates and releases, and takes no lock; others may release.
class RankHeap {
 public:
  /// Of what every allocation is aligned to.
  static constexpr std::size_t alignment = 16;

  /// An empty one in [begin, begin + bytes), which is 256 MiB at least and whole pages. Fails where the
  /// process has something there already.
  static Result<RankHeap> make(std::uint64_t begin, std::size_t bytes);
  /// Memory for the `pieces` of one that has been in another process and had `committed` bytes.
  static Result<RankHeap> make_room(std::uint64_t begin, std::size_t committed);

  /// Null where there is no memory. `aligned`: a power of 2.
  void* allocate(std::size_t bytes, std::size_t aligned = alignment) noexcept;
  /// The same, all zeros.
  void* allocate_zeros(std::size_t bytes) noexcept;
  /// Another size for what `allocate` has given, with its content. Null where there is no memory, and nothing
  /// has changed then.
  void* resize(void* memory, std::size_t bytes) noexcept;
  /// What is no memory of this heap ends the process, where that is seen.
  void release(void* memory) noexcept;
  /// The same from another thread.
  void release_elsewhere(void* memory) noexcept;

  [[nodiscard]] bool holds(const void* memory) const noexcept;
  /// How much of it may be used: as much as has been asked for, or more.
  [[nodiscard]] std::size_t usable(const void* memory) const noexcept;

  /// What has to be copied for it to be in another process: all that is not zero there but for memory that is
  /// free. `take(std::span<std::byte>)` in ascending order.
  template <class Take>
  void for_each_piece(Take take) const;
  [[nodiscard]] std::size_t committed() const noexcept;

 private:
  /// Allocations of up to `largest_small` bytes are of one of these sizes, and a granule holds those of one
  /// size. Others are spans of granules.
  static constexpr std::size_t granule = std::size_t{32} << 10, largest_small = 8192;
  static constexpr std::uint32_t sizes = 32, bins = 32;
  enum Kind : std::uint8_t { none, vacant, large, small };  // `small` + the index of the size, from here on

  struct Free {
    Free* next;
  };
  struct Vacant {
    Vacant *next, *before;
  };
  /// What a granule is: the first of a span, or the last one of a vacant one; else `none`.
  struct Granule {
    std::uint32_t kind : 8;
    std::uint32_t count : 24;
  };
  /// Granules of one size are cut when they are needed, so that pages are touched then.
  struct Size {
    Free* free;
    std::byte *uncut, *end;
  };
  struct Header;

  explicit RankHeap(Header* header) noexcept : header_(header) {}

  static std::uint32_t size_index(std::size_t bytes) noexcept;
  static std::size_t size_of(std::uint32_t index) noexcept;
  [[nodiscard]] Granule& at(std::size_t index) const noexcept;
  [[nodiscard]] std::byte* address(std::size_t index) const noexcept;
  [[nodiscard]] std::size_t index_of(const void* memory) const noexcept;
  void* refill(std::uint32_t index) noexcept;
  /// The first granule of a span; 0: there is none. `is_new`: it has never been used.
  std::size_t take_span(std::size_t count, std::size_t aligned, bool& is_new) noexcept;
  std::size_t take_vacant(std::size_t count) noexcept;
  bool advance(std::size_t count) noexcept;
  void* allocate_large(std::size_t bytes, std::size_t aligned, bool& is_new) noexcept;
  bool resize_in_place(std::size_t first, std::size_t count) noexcept;
  void give_span(std::size_t first, std::size_t count) noexcept;
  void link(std::size_t first, std::size_t count) noexcept;
  void unlink(std::size_t first) noexcept;
  void take_back() noexcept;
  [[nodiscard]] std::size_t top() const noexcept;
  [[nodiscard]] std::span<std::byte> tables() const noexcept;

  Header* header_;
};

template <class Take>
void RankHeap::for_each_piece(Take take) const {
  take(tables());
  for (std::size_t first = 0, end = top(); first < end;) {
    const Granule granule_there = at(first);
    const std::size_t count = granule_there.kind == none ? 1 : granule_there.count;
    // A vacant span has its links in its first granule.
    take(std::span(address(first), (granule_there.kind == vacant ? 1 : count) * granule));
    first += count;
  }
}

}  // namespace isthmus::vrank
