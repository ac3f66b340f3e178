#pragma once

#include "coll/call/call.hpp"
#include "coll/call/coll.hpp"
#include "coll/flow/flow.hpp"
#include "coll/select/select.hpp"

/// The collectives over messages, which is what nonblocking and persistent ones are, and blocking ones where
/// nothing quicker reaches all members.
namespace isthmus::coll {

// The algorithms, each by its name in the table of `select`; what names none of them gets one that always
// works. As in algorithms.hpp: own blocks are in their places, operands are never `in_place`.
Flow bcast_by(Algorithm algorithm, Ranks ranks, Payload data, int root);
Flow allgather_by(Algorithm algorithm, Ranks ranks, Out receive);
Flow allgather_by(Algorithm algorithm, Ranks ranks, OutV receive);
Flow reduce_by(Algorithm algorithm, Ranks ranks, const void* send, void* receive, Reduction what, int root);
Flow allreduce_by(Algorithm algorithm, Ranks ranks, const void* send, void* receive, Reduction what);

// Every collective, of intercommunicators too, for buffers that the processor can load from and store to.
// `ranks` are all that messages of the communicator go to.
Flow over_messages(Ranks ranks, const call::Barrier& c);
Flow over_messages(Ranks ranks, const call::Bcast& c);
Flow over_messages(Ranks ranks, const call::Gather& c);
Flow over_messages(Ranks ranks, const call::Gatherv& c);
Flow over_messages(Ranks ranks, const call::Scatter& c);
Flow over_messages(Ranks ranks, const call::Scatterv& c);
Flow over_messages(Ranks ranks, const call::Allgather& c);
Flow over_messages(Ranks ranks, const call::Allgatherv& c);
Flow over_messages(Ranks ranks, const call::Alltoall& c);
Flow over_messages(Ranks ranks, const call::Alltoallv& c);
Flow over_messages(Ranks ranks, const call::Alltoallw& c);
Flow over_messages(Ranks ranks, const call::Reduce& c);
Flow over_messages(Ranks ranks, const call::Allreduce& c);
Flow over_messages(Ranks ranks, const call::ReduceScatter& c);
Flow over_messages(Ranks ranks, const call::ReduceScatterBlock& c);
Flow over_messages(Ranks ranks, const call::Scan& c);
Flow over_messages(Ranks ranks, const call::Exscan& c);
Flow over_messages(Ranks ranks, const call::NeighborAllgather& c);
Flow over_messages(Ranks ranks, const call::NeighborAllgatherv& c);
Flow over_messages(Ranks ranks, const call::NeighborAlltoall& c);
Flow over_messages(Ranks ranks, const call::NeighborAlltoallv& c);
Flow over_messages(Ranks ranks, const call::NeighborAlltoallw& c);

}  // namespace isthmus::coll
