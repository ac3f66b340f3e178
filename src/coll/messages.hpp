#pragma once

#include "coll/coll.hpp"
#include "coll/ranks.hpp"
#include "coll/select.hpp"

/// The algorithms over messages, each by its name in the table of `select`; what names none of them gets one
/// that always works.
namespace isthmus::coll {

/// As in algorithms.hpp: own blocks are in their places, operands are never `in_place`.
Result<> bcast_by(Algorithm algorithm, const Ranks& ranks, const Payload& data, int root);
Result<> allgather_by(Algorithm algorithm, const Ranks& ranks, const Out& receive);
Result<> allgather_by(Algorithm algorithm, const Ranks& ranks, const OutV& receive);
Result<> reduce_by(Algorithm algorithm, const Ranks& ranks, const void* send, void* receive,
                   const Reduction& what, int root);
Result<> allreduce_by(Algorithm algorithm, const Ranks& ranks, const void* send, void* receive,
                      const Reduction& what);

}  // namespace isthmus::coll
