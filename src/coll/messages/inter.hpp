#pragma once

#include "coll/call/coll.hpp"
#include "coll/flow/flow.hpp"

/// The collectives of intercommunicators (MPI 5.0, section 6.2.3) as flows: data goes from each group to the
/// other one, `remote`. A rank 0 of its group speaks for it where that saves messages.
namespace isthmus::coll::inter {

Flow barrier(Ranks remote);
Flow bcast(Ranks remote, Payload data, int root);

Flow gather(Ranks remote, In send, Out receive, int root);
Flow gather(Ranks remote, In send, OutV receive, int root);
Flow scatter(Ranks remote, In send, Out receive, int root);
Flow scatter(Ranks remote, InV send, Out receive, int root);
Flow allgather(Ranks remote, In send, Out receive);
Flow allgather(Ranks remote, In send, OutV receive);

Flow reduce(Ranks remote, const void* send, void* receive, Reduction what, int root);
Flow allreduce(Ranks remote, const void* send, void* receive, Reduction what);
/// `counts` are those of the own group; both groups' add up to the same.
Flow reduce_scatter(Ranks remote, const void* send, void* receive, Integers counts, Reduction what);

}  // namespace isthmus::coll::inter
