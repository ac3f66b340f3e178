#pragma once

#include "coll/call/coll.hpp"
#include "coll/team/team.hpp"
#include "p2p/message/message.hpp"

/// Large collectives by copies straight between the buffers of members, for teams where `Team::direct` holds:
/// in a step everybody names its buffer, takes what it needs from the others', and stays until nobody needs
/// its own any more. Data that is not contiguous is packed first. Reductions are for contiguous types and
/// take the operand, never `in_place`; the others take `in_place` as in `coll.hpp`.
namespace isthmus::coll {

/// All others fetch from the root.
Result<> bcast_direct(Team& team, const Payload& data, int root);
/// Two ranks: the root writes one half while the other one fetches the other.
Result<> bcast_direct_both(Team& team, const Payload& data, int root);

Result<> allgather_direct(Team& team, const In& send, const Out& receive);
Result<> allgather_direct(Team& team, const In& send, const OutV& receive);
Result<> alltoall_direct(Team& team, const In& send, const Out& receive);

/// Everybody reduces everything.
Result<> allreduce_direct_all(Team& team, const void* send, void* receive, const Reduction& what);
/// Everybody reduces a share, and writes it to all others chunk by chunk.
Result<> allreduce_direct(Team& team, const void* send, void* receive, const Reduction& what);
Result<> reduce_direct(Team& team, const void* send, void* receive, const Reduction& what, int root);
Result<> reduce_scatter_direct(Team& team, const void* send, void* receive, const Integers& counts,
                               const Reduction& what);

}  // namespace isthmus::coll
