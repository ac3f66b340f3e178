#pragma once

#include <mpi.h>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "comm/communicator.hpp"
#include "comm/info.hpp"

namespace isthmus::abi {

/// Hands a communicator that was made from `parent` to the program: it inherits the error handler (MPI 5.0,
/// section 9.3.1) and gets the hints in `info`, which may be null. An empty `made` gives MPI_COMM_NULL.
Result<> give(Result<Ref<Communicator>> made, const Communicator& parent, const Info* info,
              MPI_Comm* newcomm);

/// Where a new communicator is to go: MPI_COMM_NULL until it is there, and after a call that fails.
Result<> clear_output(MPI_Comm* output, const char* argument);

/// Takes over the hints that this library knows with a value that it understands (MPI 5.0, section 7.4.4);
/// it ignores all others.
void set_hints(Communicator& comm, const Info& info);

/// Deletes the attributes and gives the handle up; `comm` becomes MPI_COMM_NULL. Pending operations keep the
/// object alive.
Result<> free_communicator(Communicator& comm, MPI_Comm* handle);

/// Fail for a communicator of the other kind.
Result<> check_intra(const Communicator& comm, const char* argument = "comm");
Result<> check_inter(const Communicator& comm, const char* argument = "comm");
/// A tag that keeps concurrent makings of communicators apart: no wildcard, at most MPI_TAG_UB.
Result<> check_creation_tag(int tag);

}  // namespace isthmus::abi
