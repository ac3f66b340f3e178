#pragma once

#include <cstdint>
#include <optional>

#include "base/error.hpp"
#include "coll/call/coll.hpp"

/// The collectives of coll.hpp straight between the GPUs of one host, where all members have their data in
/// GPU memory, without gaps, and reach each other's. Nothing where that is not so, which all members find
/// alike: then nothing has been done, and gpu/hosts/collectives.hpp or stand-ins serve.
namespace isthmus::coll::gpu {

using Tried = std::optional<Result<>>;

Tried bcast(void* buffer, std::int64_t count, const Datatype& type, int root, Communicator& comm);
Tried gatherv(const In& send, const OutV& receive, int root, Communicator& comm);
Tried scatterv(const InV& send, const Out& receive, int root, Communicator& comm);
Tried gather(const In& send, const Out& receive, int root, Communicator& comm);
Tried scatter(const In& send, const Out& receive, int root, Communicator& comm);
Tried allgather(const In& send, const Out& receive, Communicator& comm);
Tried allgatherv(const In& send, const OutV& receive, Communicator& comm);
Tried alltoall(const In& send, const Out& receive, Communicator& comm);
Tried alltoallv(const InV& send, const OutV& receive, Communicator& comm);
Tried alltoallw(const InW& send, const OutW& receive, Communicator& comm);

Tried reduce(const void* send, void* receive, const Reduction& what, int root, Communicator& comm);
Tried allreduce(const void* send, void* receive, const Reduction& what, Communicator& comm);
Tried reduce_scatter(const void* send, void* receive, const Integers& counts, const Reduction& what,
                     Communicator& comm);
Tried scan(const void* send, void* receive, const Reduction& what, Communicator& comm);
Tried exscan(const void* send, void* receive, const Reduction& what, Communicator& comm);

}  // namespace isthmus::coll::gpu
