#include "kernels/shape.hpp"

#include "datatype/walk.hpp"

namespace isthmus {
namespace {

using Kind = Layout::Kind;
using Node = Layout::Node;

std::uint64_t bits(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

/// Collects the blocks that a walk comes by, those that touch as one.
struct RunVisitor {
  std::vector<kernel::Run>& runs;
  std::uint64_t packed = 0;
  Address end = 0;  ///< of the last one

  template <class Blocks>
  bool operator()(const Blocks& blocks) {
    return blocks.each([&](Address block) { return add(block, blocks.bytes); });
  }
  bool operator()(const VariedBlocks& blocks) {
    return blocks.each([&](Address block, std::size_t size) { return add(block, size); });
  }
  bool add(Address block, std::size_t size) {
    if (runs.empty() || block != end) runs.push_back({static_cast<std::int64_t>(block), packed});
    packed += size;
    end = block + size;
    return true;
  }
};

bool add_level(ShapedSide& side, std::int64_t stride, std::uint64_t bytes) {
  kernel::Shape& shape = side.shape;
  if (shape.level_count == kernel::shape_levels) return false;
  shape.levels[shape.level_count++] = {.stride = stride, .units = bytes, .by_units = {}};
  side.factors |= bits(stride) | bytes;
  return true;
}

}  // namespace

kernel::Shape ShapedSide::in_units(std::uint64_t unit) const noexcept {
  kernel::Shape made = shape;
  made.first /= unit;
  for (std::uint32_t i = 0; i < made.level_count; ++i) {
    kernel::Shape::Level& level = made.levels[i];
    level.units /= unit;
    // A step of 2^31 units or more is never taken among fewer.
    constexpr std::uint64_t many = std::uint64_t{1} << 31U;
    level.by_units = level.units < many ? kernel::Divider::by(static_cast<std::uint32_t>(level.units))
                                        : kernel::Divider::never();
  }
  return made;
}

std::optional<ShapedSide> shape_of(const LaidOut& side) noexcept {
  ShapedSide shaped;
  auto address = reinterpret_cast<std::uintptr_t>(side.data);
  shaped.shape.first = side.position;
  shaped.factors = side.position;
  if (side.type) {
    const Layout& layout = side.type->layout();
    const Layout::Placed all = layout.repeated(side.count, side.type->extent());
    address += static_cast<std::uintptr_t>(all.offset);
    Node node = all.node;
    // A loop around a loop and so on, and in the middle one block, many, or what is not regular.
    while (node.kind == Kind::loop) {
      if (!add_level(shaped, node.stride, node.bytes)) return std::nullopt;
      node = layout.node(node.child);
    }
    if (node.kind == Kind::blocks) {
      if (node.count > 1 && !add_level(shaped, node.stride, node.bytes)) return std::nullopt;
    } else if (node.kind != Kind::empty) {
      if (node.blocks > most_runs) return std::nullopt;
      shaped.irregular = node;
    }
  } else {
    address += side.position;
    shaped.shape.first = 0;
    shaped.factors = 0;
  }
  shaped.shape.base = reinterpret_cast<kernel::Byte*>(address);  // NOLINT(performance-no-int-to-ptr)
  return shaped;
}

RunList runs_of(const Layout& layout, const Layout::Node& node) {
  RunList list;
  list.runs.reserve(node.blocks);
  RunVisitor visitor{list.runs};
  Walk(layout, visitor).range(node, 0, 0, node.size);
  list.first_offset = list.runs.front().offset;
  for (kernel::Run& run : list.runs) {
    run.offset -= list.first_offset;
    list.factors |= bits(run.offset) | run.packed;
  }
  return list;
}

}  // namespace isthmus
