#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/error.hpp"
#include "coll/gpu/moves.hpp"
#include "coll/gpu/work.hpp"

namespace isthmus::coll {

/// What one member does in a collective between GPUs where memory cannot be handed on (`GpuView::by_window`).
struct GpuPassage {
  /// What others want of this member: one block for all of them, or one for each (`is_for_each`, the same at
  /// all members).
  std::array<GpuBlock, flat_ranks> out{};
  bool is_for_each = false;
  /// Where the block of each member goes to. This member's own comes from `own`, null where it is in its
  /// place.
  std::array<GpuBlock, flat_ranks> in{};
  const std::byte* own = nullptr;
  /// In place of `in`: what the blocks of members 0 to `operands` - 1 are combined to, where there are any.
  struct Combined {
    Reduction what;  ///< `count` of the result
    int operands = 0;
    std::byte* result = nullptr;
  };
  std::optional<Combined> combined{};
};

/// Every member copies what others want of it to its window (`GpuWindows`), a round at a time: from half of
/// the window the others fetch a round while its owner copies the next one to the other half. Members meet
/// after each round. A round is the same bytes of every block, so that a buffer may be operand and result:
/// what a round overwrites has been copied in a round before, or in this one's.
Result<> in_rounds(GpuTeam& team, const GpuView& view, const GpuCall& call, const GpuPassage& passage);

}  // namespace isthmus::coll
