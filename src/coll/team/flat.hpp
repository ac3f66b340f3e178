#pragma once

#include "coll/call/coll.hpp"
#include "coll/team/team.hpp"
#include "p2p/message/message.hpp"

/// Small collectives through the lines and slots of a team. No contribution is larger than `slot_bytes`
/// (alltoall, scatter: all blocks together). Reductions are for contiguous types and take the operand, never
/// `in_place`; the others take `in_place` as in `coll.hpp`.
namespace isthmus::coll {

Result<> barrier_flat(Team& team);
Result<> barrier_counted(Team& team);
/// Whether all members say yes.
Result<bool> agree(Team& team, bool yes);

Result<> bcast_flat(Team& team, const Payload& data, int root);
Result<> gather_flat(Team& team, const In& send, const Out& receive, int root);
Result<> scatter_flat(Team& team, const In& send, const Out& receive, int root);
Result<> allgather_flat(Team& team, const In& send, const Out& receive);
Result<> allgather_flat(Team& team, const In& send, const OutV& receive);
Result<> alltoall_flat(Team& team, const In& send, const Out& receive);

Result<> reduce_flat(Team& team, const void* send, void* receive, const Reduction& what, int root);
Result<> allreduce_flat(Team& team, const void* send, void* receive, const Reduction& what);
/// `receive` is used at `root` alone, or by all if that is `everybody`.
inline constexpr int everybody = -1;
Result<> reduce_counted(Team& team, const void* send, void* receive, const Reduction& what, int root);
Result<> reduce_scatter_flat(Team& team, const void* send, void* receive, const Integers& counts,
                             const Reduction& what);
Result<> scan_flat(Team& team, const void* send, void* receive, const Reduction& what);
Result<> exscan_flat(Team& team, const void* send, void* receive, const Reduction& what);

}  // namespace isthmus::coll
