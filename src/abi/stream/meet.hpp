#pragma once

#include <mpi.h>

#include <optional>

#include "base/error.hpp"
#include "coll/call/call.hpp"
#include "comm/communicator.hpp"
#include "p2p/message/message.hpp"
#include "stream/stream.hpp"

/// Collectives in the order of a stream by kernels of all members that meet in each other's memory
/// (kernels/body/meet): no processor is on the way.
namespace isthmus::abi {

/// Gives a new communicator with a stream a board, where it has one at all members, of GPUs that reach each
/// other. Nothing else is different where it gets none. Collective over the communicator; without the
/// engine's lock.
Result<> open_board(MPI_Comm handle);

/// Whether kernels on the stream's GPU reach it, without gaps.
Result<bool> kernels_reach(Communicator& comm, const stream::Stream& stream, const Payload& payload);

// Puts the collective on the communicator's stream; nothing where it is to go by the stream's thread, which
// all members find alike: by arguments that are the same at all of them, and by what they have agreed on when
// the board was made. Buffers that kernels do not reach, or with gaps, are copied by the stream's thread
// before and behind.

std::optional<Result<>> meet(const char* function, Communicator& comm, const coll::call::Barrier& what);
std::optional<Result<>> meet(const char* function, Communicator& comm, const coll::call::Bcast& what);
std::optional<Result<>> meet(const char* function, Communicator& comm, const coll::call::Allgather& what);
std::optional<Result<>> meet(const char* function, Communicator& comm, const coll::call::Alltoall& what);
std::optional<Result<>> meet(const char* function, Communicator& comm, const coll::call::Allreduce& what);
std::optional<Result<>> meet(const char* function, Communicator& comm, const coll::call::ReduceScatter& what);
std::optional<Result<>> meet(const char* function, Communicator& comm,
                             const coll::call::ReduceScatterBlock& what);

}  // namespace isthmus::abi
