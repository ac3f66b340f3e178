#pragma once

#include "coll/call/coll.hpp"

/// The collectives of coll.hpp for buffers that the processor can load from and store to.
namespace isthmus::coll::host {

Result<> barrier(Communicator& comm);
Result<> bcast(void* buffer, std::int64_t count, const Datatype& type, int root, Communicator& comm);

Result<> gather(const In& send, const Out& receive, int root, Communicator& comm);
Result<> gatherv(const In& send, const OutV& receive, int root, Communicator& comm);
Result<> scatter(const In& send, const Out& receive, int root, Communicator& comm);
Result<> scatterv(const InV& send, const Out& receive, int root, Communicator& comm);

Result<> allgather(const In& send, const Out& receive, Communicator& comm);
Result<> allgatherv(const In& send, const OutV& receive, Communicator& comm);
Result<> alltoall(const In& send, const Out& receive, Communicator& comm);
Result<> alltoallv(const InV& send, const OutV& receive, Communicator& comm);
Result<> alltoallw(const InW& send, const OutW& receive, Communicator& comm);

Result<> reduce(const void* send, void* receive, const Reduction& what, int root, Communicator& comm);
Result<> allreduce(const void* send, void* receive, const Reduction& what, Communicator& comm);
Result<> reduce_scatter(const void* send, void* receive, const Integers& counts, const Reduction& what,
                        Communicator& comm);
Result<> reduce_scatter_block(const void* send, void* receive, const Reduction& what, Communicator& comm);
Result<> scan(const void* send, void* receive, const Reduction& what, Communicator& comm);
Result<> exscan(const void* send, void* receive, const Reduction& what, Communicator& comm);

}  // namespace isthmus::coll::host
