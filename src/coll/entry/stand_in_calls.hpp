#pragma once

#include "coll/call/call.hpp"
#include "coll/entry/stand_ins.hpp"

namespace isthmus::coll {

// Each collective with stand-ins for those of its buffers that lie in GPU memory and matter at this member.
// Lists of counts and the like stay the caller's.
call::Barrier stand_in(const call::Barrier& c, StandIns& stand_ins, Communicator& comm);
call::Bcast stand_in(const call::Bcast& c, StandIns& stand_ins, Communicator& comm);
call::Gather stand_in(const call::Gather& c, StandIns& stand_ins, Communicator& comm);
call::Gatherv stand_in(const call::Gatherv& c, StandIns& stand_ins, Communicator& comm);
call::Scatter stand_in(const call::Scatter& c, StandIns& stand_ins, Communicator& comm);
call::Scatterv stand_in(const call::Scatterv& c, StandIns& stand_ins, Communicator& comm);
call::Allgather stand_in(const call::Allgather& c, StandIns& stand_ins, Communicator& comm);
call::Allgatherv stand_in(const call::Allgatherv& c, StandIns& stand_ins, Communicator& comm);
call::Alltoall stand_in(const call::Alltoall& c, StandIns& stand_ins, Communicator& comm);
call::Alltoallv stand_in(const call::Alltoallv& c, StandIns& stand_ins, Communicator& comm);
call::Alltoallw stand_in(const call::Alltoallw& c, StandIns& stand_ins, Communicator& comm);
call::Reduce stand_in(const call::Reduce& given, StandIns& stand_ins, Communicator& comm);
call::Allreduce stand_in(const call::Allreduce& c, StandIns& stand_ins, Communicator& comm);
call::ReduceScatter stand_in(const call::ReduceScatter& c, StandIns& stand_ins, Communicator& comm);
call::ReduceScatterBlock stand_in(const call::ReduceScatterBlock& c, StandIns& stand_ins, Communicator& comm);
call::Scan stand_in(const call::Scan& c, StandIns& stand_ins, Communicator& comm);
call::Exscan stand_in(const call::Exscan& c, StandIns& stand_ins, Communicator& comm);
call::NeighborAllgather stand_in(const call::NeighborAllgather& c, StandIns& stand_ins, Communicator& comm);
call::NeighborAllgatherv stand_in(const call::NeighborAllgatherv& c, StandIns& stand_ins, Communicator& comm);
call::NeighborAlltoall stand_in(const call::NeighborAlltoall& c, StandIns& stand_ins, Communicator& comm);
call::NeighborAlltoallv stand_in(const call::NeighborAlltoallv& c, StandIns& stand_ins, Communicator& comm);
call::NeighborAlltoallw stand_in(const call::NeighborAlltoallw& c, StandIns& stand_ins, Communicator& comm);

}  // namespace isthmus::coll
