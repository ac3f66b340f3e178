#pragma once

#include <cstdint>
#include <optional>

#include "base/error.hpp"
#include "coll/call/coll.hpp"

/// The collectives of coll.hpp for data in the memory of GPUs on several hosts, in two levels
/// (`AcrossHosts`): long data, where all members have it in GPU memory without gaps. Nothing where that is
/// not so, which all members find alike: then nothing has been done, and stand-ins serve.
namespace isthmus::coll::gpu_hosts {

using Tried = std::optional<Result<>>;

Tried bcast(void* buffer, std::int64_t count, const Datatype& type, int root, Communicator& comm);
Tried allgather(const In& send, const Out& receive, Communicator& comm);
/// Not in place, and for long blocks.
Tried alltoall(const In& send, const Out& receive, Communicator& comm);
Tried reduce(const void* send, void* receive, const Reduction& what, int root, Communicator& comm);
Tried reduce_scatter_block(const void* send, void* receive, const Reduction& what, Communicator& comm);
Tried allreduce(const void* send, void* receive, const Reduction& what, Communicator& comm);

}  // namespace isthmus::coll::gpu_hosts
