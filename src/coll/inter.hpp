#pragma once

#include "coll/coll.hpp"

/// The collectives of intercommunicators (MPI 5.0, section 6.2.3): data goes from each group to the other
/// one. A rank 0 of its group speaks for it where that saves messages.
namespace isthmus::coll::inter {

Result<> barrier(Communicator& comm);
Result<> bcast(const Payload& data, int root, Communicator& comm);

Result<> gather(const In& send, const Out& receive, int root, Communicator& comm);
Result<> gather(const In& send, const OutV& receive, int root, Communicator& comm);
Result<> scatter(const In& send, const Out& receive, int root, Communicator& comm);
Result<> scatter(const InV& send, const Out& receive, int root, Communicator& comm);
Result<> allgather(const In& send, const Out& receive, Communicator& comm);
Result<> allgather(const In& send, const OutV& receive, Communicator& comm);

Result<> reduce(const void* send, void* receive, const Reduction& what, int root, Communicator& comm);
Result<> allreduce(const void* send, void* receive, const Reduction& what, Communicator& comm);
/// `counts` are those of the own group; both groups' add up to the same.
Result<> reduce_scatter(const void* send, void* receive, const Integers& counts, const Reduction& what,
                        Communicator& comm);

}  // namespace isthmus::coll::inter
