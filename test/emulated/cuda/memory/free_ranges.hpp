#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace isthmus::emulated {

/// Pieces that are free, the lowest given out first, so that what was freed is used again soon.
class FreeRanges {
 public:
  void add(std::uint64_t begin, std::size_t bytes) {
    const auto next = free_.find(begin + bytes);
    if (next != free_.end()) {
      bytes += next->second;
      free_.erase(next);
    }
    const auto after = free_.lower_bound(begin);
    if (after != free_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == begin) {
        before->second += bytes;
        return;
      }
    }
    free_.emplace(begin, bytes);
  }

  /// `alignment` is a power of two. Nothing where there is no room.
  std::optional<std::uint64_t> take(std::size_t bytes, std::size_t alignment) {
    for (const auto& [start, room] : free_) {
      const std::uint64_t begin = (start + alignment - 1) & ~(std::uint64_t{alignment} - 1);
      const std::size_t before = begin - start;
      if (before > room || room - before < bytes) continue;
      const std::size_t after = room - before - bytes;
      free_.erase(start);
      if (before > 0) free_.emplace(begin - before, before);
      if (after > 0) free_.emplace(begin + bytes, after);
      return begin;
    }
    return std::nullopt;
  }

 private:
  std::map<std::uint64_t, std::size_t> free_;
};

}  // namespace isthmus::emulated
