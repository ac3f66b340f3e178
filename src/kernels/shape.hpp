#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "datatype/layout.hpp"
#include "kernels/body/move.hpp"
#include "kernels/gpu_kernels.hpp"

namespace isthmus {

/// The blocks of a layout's irregular part, relative to the first of them.
struct RunList {
  std::vector<kernel::Run> runs;
  std::int64_t first_offset = 0;  ///< of the first block within that part
  std::uint64_t factors = 0;      ///< all offsets and packed positions, by OR: how they are aligned
};

/// One side of a copy as kernels see it.
struct ShapedSide {
  kernel::Shape shape{};
  std::uint64_t factors = 0;  ///< what a unit has to divide besides the shape's base, by OR
  /// The node of the layout whose blocks `shape.runs` has to list; empty where there are none.
  std::optional<Layout::Node> irregular;

  /// With the sizes in units of so many bytes.
  [[nodiscard]] kernel::Shape in_units(std::uint64_t unit) const noexcept;
};

/// The most blocks that one irregular part may have: 64 MiB as runs.
inline constexpr std::uint64_t most_runs = std::uint64_t{1} << 22U;

/// Nothing where kernels cannot go through it.
[[nodiscard]] std::optional<ShapedSide> shape_of(const LaidOut& side) noexcept;
/// The blocks of `node`.
[[nodiscard]] RunList runs_of(const Layout& layout, const Layout::Node& node);

}  // namespace isthmus
