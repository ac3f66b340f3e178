#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"

namespace isthmus::vrank {

/// The addresses that a rank has for itself in all processes of its job. No two ranks have the same, so a
/// rank's memory fits into any of the processes where it is.
///
/// They lie from 16 to 32 TiB, where Linux puts nothing by itself: neither from the top of the address space
/// down nor, with an unlimited stack, from its third up. A span of addresses costs nothing before it is
/// mapped.
class RankSpace {
 public:
  static constexpr std::uint64_t begin = std::uint64_t{1} << 44, bytes_of_all = begin;
  static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 38;

  /// `rank` is one of the job's `world`, which is at least 1.
  constexpr RankSpace(std::uint32_t rank, std::uint32_t world) noexcept
      : part_(std::min(bytes_of_all / std::bit_ceil(std::uint64_t{world}), most_bytes) / parts),
        first_(begin + rank * part_ * parts) {}

  /// How large each of these is.
  [[nodiscard]] constexpr std::uint64_t part_bytes() const noexcept { return part_; }
  /// Where the rank's copy of the program begins.
  [[nodiscard]] constexpr std::uint64_t program() const noexcept { return first_; }
  /// Where the thread ends that keeps the rank's thread-local storage, and the rank's stack: both grow down.
  [[nodiscard]] constexpr std::uint64_t thread_end() const noexcept { return first_ + 2 * part_; }
  [[nodiscard]] constexpr std::uint64_t stack_end() const noexcept { return first_ + 3 * part_; }
  /// Where its heap begins, which may fill its part.
  [[nodiscard]] constexpr std::uint64_t heap() const noexcept { return first_ + 3 * part_; }
  /// Where the part begins in which its stack lies.
  [[nodiscard]] constexpr std::uint64_t stack_part() const noexcept { return first_ + 2 * part_; }
  [[nodiscard]] constexpr std::uint64_t end() const noexcept { return first_ + parts * part_; }
  [[nodiscard]] constexpr bool contains(std::uint64_t address) const noexcept {
    return address - first_ < parts * part_;
  }
  [[nodiscard]] bool contains(const void* address) const noexcept {
    return contains(reinterpret_cast<std::uint64_t>(address));
  }

 private:
  static constexpr std::uint64_t parts = 4;

  std::uint64_t part_;
  std::uint64_t first_;
};

/// `bytes` of memory that end at `end`, both whole pages; pages come into being when touched. Fails where the
/// process has something there already. `what`, for people: whose memory it is. `more_flags`: of mmap(2).
Result<std::span<std::byte>> map_before(std::uint64_t end, std::size_t bytes, const char* what,
                                        int more_flags = 0);

}  // namespace isthmus::vrank
