#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace isthmus::vrank {

/// What a descriptor is open on, or what has been mapped.
struct OpenFile {
  dev_t device = 0;
  ino_t file = 0;
  friend bool operator==(const OpenFile&, const OpenFile&) = default;
};

/// Memory of a process, as the kernel tells (/proc/self/maps).
struct MappedRange {
  std::uint64_t begin, end, offset;
  std::int32_t protection;
  bool is_shared;
  OpenFile file;  ///< of number 0: none
  std::string path;
};
/// What begins in [begin, end).
std::vector<MappedRange> mapped_ranges(std::uint64_t begin, std::uint64_t end);

}  // namespace isthmus::vrank
