#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "vrank/hosts/own_descriptors.hpp"
#include "vrank/process/mapped_ranges.hpp"
#include "vrank/rank_space.hpp"

// What keeps a rank in its process.
namespace isthmus::vrank {

struct OpenDescriptor {
  int number = -1;
  OpenFile on;
  friend bool operator==(const OpenDescriptor&, const OpenDescriptor&) = default;
};
/// Of this process.
std::vector<OpenDescriptor> open_descriptors();

/// What the dynamic linker has loaded into this process but copies of the program: its records of them.
std::vector<const void*> loaded_objects();

/// Which file the region is, and what the process has open beside it for all of its ranks.
struct RegionFile {
  int fd = -1;
  OpenFile file;
  std::vector<OpenDescriptor> known;
  std::vector<const void*> libraries;     ///< `loaded_objects`, at the start
  const OwnDescriptors* lines = nullptr;  ///< to other hosts; null: there are none
};

/// What a rank has thread-local: from where on, below its thread pointer.
struct ThreadLocalRange {
  std::uint64_t begin = 0, pointer = 0;
};
/// Of the thread that calls, in its turn; the error says which library's variables lie elsewhere.
Result<ThreadLocalRange> own_thread_locals(const RankSpace& space);

/// With another, the C library makes what it needs for all of the process in the turn of the rank that first
/// asks for it: messages, conversions of characters.
bool has_built_in_locale();

/// What keeps the rank whose turn it is in its process; as a sentence goes on, empty for nothing.
std::string why_tied(const RankSpace& space, const RegionFile& region);

}  // namespace isthmus::vrank
