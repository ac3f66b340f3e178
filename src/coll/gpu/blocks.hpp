#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "coll/area/team_area.hpp"
#include "coll/call/local.hpp"
#include "coll/gpu/moves.hpp"

namespace isthmus::coll {

/// The blocks of an argument that has one for each member, of lengths and at places of their own.
struct GpuBlocks {
  bool has_gaps = false;  ///< some block has
  Payload run{};          ///< from the first byte of any block to the last
  std::array<GpuBlock, flat_ranks> each{};
  GpuBegins begins{};  ///< of each in the run
  std::uint64_t longest = 0;

  /// As `block(argument, i)` tells them, for `members` members.
  template <class Argument>
  static GpuBlocks of(const Argument& argument, int members);
};

template <class Argument>
GpuBlocks GpuBlocks::of(const Argument& argument, int members) {
  GpuBlocks blocks;
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
  for (int i = 0; i < members; ++i) {
    const Payload one = block(argument, i);
    if (one.bytes == 0) continue;
    blocks.has_gaps = blocks.has_gaps || one.type;
    blocks.each[static_cast<std::size_t>(i)] = {one.data, one.bytes};
    blocks.longest = std::max(blocks.longest, one.bytes);
    begin = begin ? std::min(begin, one.data) : one.data;
    end = std::max(end, one.data + one.bytes);
  }
  if (!begin) return blocks;
  blocks.run = Payload::of(begin, static_cast<std::uint64_t>(end - begin));
  for (std::size_t i = 0; i < blocks.each.size(); ++i)
    if (blocks.each[i].bytes != 0) blocks.begins[i] = static_cast<std::uint64_t>(blocks.each[i].data - begin);
  return blocks;
}

}  // namespace isthmus::coll
