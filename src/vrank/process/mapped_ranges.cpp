#include "vrank/process/mapped_ranges.hpp"

#include <sys/mman.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <utility>

namespace isthmus::vrank {

std::vector<MappedRange> mapped_ranges(std::uint64_t begin, std::uint64_t end) {
  std::vector<MappedRange> ranges;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    MappedRange range{};
    // They are in the order of addresses.
    std::from_chars(line.data(), line.data() + line.size(), range.begin, 16);
    if (range.begin < begin) continue;
    if (range.begin >= end) break;
    std::array<char, 5> modes{};
    unsigned major = 0, minor = 0;
    std::uint64_t inode = 0;
    int path = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
                    &range.begin, &range.end, modes.data(), &range.offset, &major, &minor, &inode, &path) < 7)
      continue;
    range.protection = (modes[0] == 'r' ? PROT_READ : 0) | (modes[1] == 'w' ? PROT_WRITE : 0) |
                       (modes[2] == 'x' ? PROT_EXEC : 0);
    range.is_shared = modes[3] == 's';
    range.file = {::makedev(major, minor), inode};
    range.path = line.substr(std::min<std::size_t>(static_cast<std::size_t>(path), line.size()));
    ranges.push_back(std::move(range));
  }
  return ranges;
}

}  // namespace isthmus::vrank
