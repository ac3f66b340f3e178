#pragma once

#include "coll/call/operands.hpp"
#include "coll/flow/flow.hpp"

namespace isthmus::coll {

/// Reduces pieces in a ring, n - 1 steps: at the end rank i holds the result of piece i of `shares` in its
/// place in `sums`, which holds the rank's operand before and is overwritten. For commutative operations.
Flow reduce_pieces(Ranks ranks, void* sums, const Shares& shares, Reduction what);

}  // namespace isthmus::coll
