#pragma once

#include "coll/operands.hpp"
#include "coll/ranks.hpp"

namespace isthmus::coll {

/// Reduces pieces in a ring, n - 1 steps: at the end rank i holds the result of piece i of `shares` in its
/// place in `sums`, which holds the rank's operand before and is overwritten. For commutative operations.
Result<> reduce_pieces(const Ranks& ranks, void* sums, const Shares& shares, const Reduction& what);

}  // namespace isthmus::coll
