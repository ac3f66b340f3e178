#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "coll/call/coll.hpp"
#include "coll/gpu/work.hpp"

/// Reductions between GPUs, for operations and types that there are kernels for. A kernel reads the operands
/// of all members, in order of rank, so that results are the same wherever they are computed. Between
/// `GpuTeam::begin` and `GpuTeam::end`, as in moves.hpp; what is sent and where results go was offered.
namespace isthmus::coll {

Result<> reduce_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, const Reduction& what, int root);
Result<> allreduce_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, const Reduction& what);
/// `what.count` elements from element `first` of the operands on, for this member alone.
Result<> reduce_part_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, const Reduction& what,
                         std::int64_t first);
/// The operands of members before this one, in order, and with `inclusive` its own; nothing for none.
Result<> scan_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, const Reduction& what,
                  bool inclusive);

}  // namespace isthmus::coll
