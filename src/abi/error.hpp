#pragma once

#include <mpi.h>

#include "base/error.hpp"

namespace isthmus {
class Communicator;
}

namespace isthmus::abi {

/// Raises `error` of the MPI function `function` through the error handler of `comm` (MPI 5.0, section 9.3),
/// or, without one, of MPI_COMM_SELF, and returns the code for the caller. The code is the class (or the
/// program's own code); the sentence, with the function's name, is what MPI_Error_string tells for that class
/// in this thread until the next error of the class. Before MPI_Init and after MPI_Finalize errors are fatal
/// (section 9.3.1), except where the standard lets the function return a code.
int raise(const char* function, Communicator* comm, const Error& error) noexcept;
int raise(const char* function, const Error& error) noexcept;

/// What a function that is not implemented yet does: MPI_ERR_UNSUPPORTED_OPERATION, with its name in the
/// error string.
int unsupported(const char* function) noexcept;
int unsupported(const char* function, MPI_Comm comm) noexcept;

/// Puts `error` on record for MPI_Error_string without raising it (statuses of MPI_ERR_IN_STATUS).
int note(const char* function, const Error& error) noexcept;

}  // namespace isthmus::abi
