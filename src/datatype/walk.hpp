#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "datatype/block_copy.hpp"
#include "datatype/layout.hpp"

namespace isthmus {

/// Visits the blocks of a packed range of a layout, in packed order. `Visitor` is called with each of the
/// kinds of blocks in block_copy.hpp and returns whether to go on.
///
/// There is no state to resume from: a range is found again from its packed position, by one division for
/// each regular level and one binary search for each irregular one.
template <class Visitor>
class Walk {
 public:
  Walk(const Layout& layout, Visitor& visitor) : layout_(layout), visitor_(visitor) {}

  /// Packed bytes [skip, skip + limit) of `node` at `address`; the range lies inside it. Returns false as
  /// soon as the visitor does.
  bool range(const Layout::Node& node, Address address, std::uint64_t skip, std::uint64_t limit) {
    if (limit == 0) return true;
    if (skip == 0 && limit == node.size) return whole(node, address);
    switch (node.kind) {
      case Layout::Kind::blocks:
        return blocks(node, address, skip, limit);
      case Layout::Kind::loop:
        return loop(node, address, skip, limit);
      case Layout::Kind::list:
      case Layout::Kind::sequence:
        return irregular(node, address, skip, limit);
      default:
        return true;
    }
  }

 private:
  using Node = Layout::Node;

  static Address step(Address address, std::int64_t offset) { return address + static_cast<Address>(offset); }
  static Address step(Address address, std::uint64_t i, std::int64_t stride) {
    return address + i * static_cast<Address>(stride);
  }

  bool whole(const Node& node, Address address) {
    switch (node.kind) {
      case Layout::Kind::blocks:
        return visitor_(StridedBlocks{address, node.count, node.stride, node.bytes});
      case Layout::Kind::loop:
        return whole_loop(node, address);
      case Layout::Kind::list:
        if (uniform(node)) {
          return visitor_(ListedBlocks{address, layout_.offsets(node), node.count, node.bytes});
        }
        return visitor_(VariedBlocks{address, layout_.offsets(node), layout_.packed(node), node.count});
      case Layout::Kind::sequence: {
        const Layout::Child* children = layout_.children(node);
        for (std::int64_t i = 0; i < node.count; ++i) {
          if (!whole(layout_.node(children[i].node), step(address, children[i].offset))) return false;
        }
        return true;
      }
      default:
        return true;
    }
  }

  bool whole_loop(const Node& node, Address address) {
    const Node& child = layout_.node(node.child);
    if (child.kind == Layout::Kind::blocks) {
      const StridedBlocks row{address, child.count, child.stride, child.bytes};
      return visitor_(BlockGrid{row, node.count, node.stride, child.bytes});
    }
    for (std::int64_t i = 0; i < node.count; ++i, address = step(address, node.stride)) {
      if (!whole(child, address)) return false;
    }
    return true;
  }

  bool block(Address address, std::uint64_t skip, std::uint64_t bytes) {
    return visitor_(StridedBlocks{address + skip, 1, 0, bytes});
  }

  bool blocks(const Node& node, Address address, std::uint64_t skip, std::uint64_t limit) {
    std::uint64_t i = skip / node.bytes;
    if (const std::uint64_t inside = skip % node.bytes; inside != 0) {
      const std::uint64_t rest = std::min(node.bytes - inside, limit);
      if (!block(step(address, i++, node.stride), inside, rest)) return false;
      limit -= rest;
    }
    if (const std::uint64_t full = limit / node.bytes; full != 0) {
      const StridedBlocks run{step(address, i, node.stride), static_cast<std::int64_t>(full), node.stride,
                              node.bytes};
      if (!visitor_(run)) return false;
      i += full;
      limit -= full * node.bytes;
    }
    return limit == 0 || block(step(address, i, node.stride), 0, limit);
  }

  bool loop(const Node& node, Address address, std::uint64_t skip, std::uint64_t limit) {
    const Node& child = layout_.node(node.child);
    std::uint64_t i = skip / node.bytes;
    if (const std::uint64_t inside = skip % node.bytes; inside != 0) {
      const std::uint64_t rest = std::min(node.bytes - inside, limit);
      if (!range(child, step(address, i++, node.stride), inside, rest)) return false;
      limit -= rest;
    }
    if (const std::uint64_t full = limit / node.bytes; full != 0) {
      Node part = node;
      part.count = static_cast<std::int64_t>(full);
      if (!whole_loop(part, step(address, i, node.stride))) return false;
      i += full;
      limit -= full * node.bytes;
    }
    return range(child, step(address, i, node.stride), 0, limit);
  }

  bool irregular(const Node& node, Address address, std::uint64_t skip, std::uint64_t limit) {
    const std::uint64_t end = skip + limit;
    std::uint64_t i = entry_at(node, skip);
    if (const std::uint64_t inside = skip - entry_start(node, i); inside != 0) {
      const std::uint64_t rest = std::min(entry_size(node, i) - inside, limit);
      if (!entry(node, address, i++, inside, rest)) return false;
      skip += rest;
    }
    if (skip == end) return true;
    const std::uint64_t last = entry_at(node, end - 1);
    const std::uint64_t after = entry_start(node, last) + entry_size(node, last) == end ? last + 1 : last;
    if (after > i && !whole(entries(node, i, after), address)) return false;
    return after > last || entry(node, address, last, 0, end - entry_start(node, last));
  }

  /// The entries from `begin` to before `end` of a list or sequence, as a node whose `size` is not set.
  static Node entries(const Node& node, std::uint64_t begin, std::uint64_t end) {
    Node part = node;
    part.first += begin;
    part.packed += begin;
    part.count = static_cast<std::int64_t>(end - begin);
    return part;
  }

  static bool uniform(const Node& node) { return node.kind == Layout::Kind::list && node.bytes != 0; }

  std::uint64_t entry_at(const Node& node, std::uint64_t position) const {
    if (uniform(node)) return position / node.bytes;
    const std::uint64_t* begin = layout_.packed(node);
    return static_cast<std::uint64_t>(std::upper_bound(begin, begin + node.count, position) - begin) - 1;
  }
  std::uint64_t entry_start(const Node& node, std::uint64_t i) const {
    return uniform(node) ? i * node.bytes : layout_.packed(node)[i];
  }
  std::uint64_t entry_size(const Node& node, std::uint64_t i) const {
    return uniform(node) ? node.bytes : layout_.packed(node)[i + 1] - layout_.packed(node)[i];
  }

  bool entry(const Node& node, Address address, std::uint64_t i, std::uint64_t skip, std::uint64_t limit) {
    if (node.kind == Layout::Kind::list) return block(step(address, layout_.offsets(node)[i]), skip, limit);
    const Layout::Child& child = layout_.children(node)[i];
    return range(layout_.node(child.node), step(address, child.offset), skip, limit);
  }

  const Layout& layout_;
  Visitor& visitor_;
};

}  // namespace isthmus
