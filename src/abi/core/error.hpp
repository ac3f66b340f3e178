#pragma once

#include <mpi.h>

#include <string>

#include "base/error.hpp"
#include "comm/errhandler.hpp"

namespace isthmus {
class Communicator;
}

namespace isthmus::abi {

/// Raises `error` of the MPI function `function` through the error handler of `comm` (MPI 5.0, section 9.3),
/// or, without one, of MPI_COMM_SELF, and returns the code for the caller. The code is the class (or the
/// program's own code); the sentence, with the function's name, is what MPI_Error_string tells for that class
/// in this thread until the next error of the class. Before MPI_Init and after MPI_Finalize errors are fatal
/// (section 9.3.1), except where the standard lets the function return a code.
[[gnu::cold, gnu::noinline]] int raise(const char* function, Communicator* comm, const Error& error) noexcept;
[[gnu::cold, gnu::noinline]] int raise(const char* function, const Error& error) noexcept;

/// What a function that is not implemented yet does: MPI_ERR_UNSUPPORTED_OPERATION, with its name in the
/// error string. Functions of the tool interface raise nothing, they only return the code (section 15.3).
int unsupported(const char* function) noexcept;
int unsupported(const char* function, MPI_Comm comm) noexcept;

/// Puts `error` on record for MPI_Error_string without raising it (statuses of MPI_ERR_IN_STATUS). Returns
/// its code.
int note(const char* function, const Error& error) noexcept;

/// What MPI_Error_string tells; empty for codes without a string. `code` must be known.
[[nodiscard]] std::string error_string(int code);

/// Acts on `code` as `handler` says, for an object with handle `object`. Returns the code that the failed
/// function returns. `message` is for people.
int invoke(const Errhandler& handler, std::uintptr_t object, int code, const std::string& message) noexcept;

/// For the handler of exceptions at the edge: raises what was thrown. To be called while an exception is
/// handled.
[[gnu::cold, gnu::noinline]] int raise_exception(const char* function, Communicator* comm) noexcept;

/// Raises the error of a call outside of MPI_Init .. MPI_Finalize.
[[gnu::cold, gnu::noinline]] int raise_not_running(const char* function) noexcept;
/// Raises `invalid communicator` for `comm`.
[[gnu::cold, gnu::noinline]] int raise_bad_comm(const char* function, MPI_Comm comm) noexcept;

}  // namespace isthmus::abi
