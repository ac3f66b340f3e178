#pragma once

#include <mpi.h>

#include <string>
#include <utility>

#include "abi/error.hpp"
#include "abi/runtime.hpp"
#include "base/error.hpp"

/// How an entry point is written: `call` holds the lock, refuses calls outside of init..finalize, finds the
/// communicator, runs the body and raises what the body returns. Bodies look other arguments up with the
/// functions below, which return errors that say which argument was wrong.
///
///     ISTHMUS_ENTRY(int, Barrier)(MPI_Comm comm) {
///       return call("MPI_Barrier", comm, [&](Communicator& c) { return coll::barrier(c); });
///     }
namespace isthmus::abi {

/// Holds the engine's lock for one MPI call.
class CallGuard {
 public:
  explicit CallGuard(Runtime& runtime) : lock_(runtime.lock()) { lock_.lock(); }
  ~CallGuard() { lock_.unlock(); }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

 private:
  EngineLock& lock_;
};

/// Raises the error of a call outside of MPI_Init .. MPI_Finalize.
int raise_not_running(const char* function) noexcept;
/// Raises `invalid communicator` for `comm`.
int raise_bad_comm(const char* function, MPI_Comm comm) noexcept;

/// For functions with a communicator, which owns the error handler. `body`: `Result<>(Communicator&)`. No
/// exception leaves it: `std::bad_alloc` becomes MPI_ERR_NO_MEM.
template <class Body>
inline int call(const char* function, MPI_Comm comm, Body&& body) noexcept {
  Runtime& runtime = Runtime::get();
  if (!runtime.running()) [[unlikely]]
    return raise_not_running(function);
  CallGuard guard(runtime);
  Communicator* communicator = runtime.communicators.find(comm);
  if (!communicator) [[unlikely]]
    return raise_bad_comm(function, comm);
  try {
    Result<> result = body(*communicator);
    if (result) [[likely]]
      return MPI_SUCCESS;
    return raise(function, communicator, result.error());
  } catch (const std::bad_alloc&) {
    return raise(function, communicator, Error(ErrorClass::no_mem, "out of memory"));
  }
}

/// For functions without a communicator, between MPI_Init and MPI_Finalize. `body`: `Result<>(Runtime&)`.
template <class Body>
inline int call(const char* function, Body&& body) noexcept {
  Runtime& runtime = Runtime::get();
  if (!runtime.running()) [[unlikely]]
    return raise_not_running(function);
  CallGuard guard(runtime);
  try {
    Result<> result = body(runtime);
    if (result) [[likely]]
      return MPI_SUCCESS;
    return raise(function, result.error());
  } catch (const std::bad_alloc&) {
    return raise(function, Error(ErrorClass::no_mem, "out of memory"));
  }
}

/// The same for functions that are allowed at any time (MPI 5.0, section 11.4.1).
template <class Body>
inline int call_any_time(const char* function, Body&& body) noexcept {
  Runtime& runtime = Runtime::get();
  CallGuard guard(runtime);
  try {
    Result<> result = body(runtime);
    if (result) [[likely]]
      return MPI_SUCCESS;
    return raise(function, result.error());
  } catch (const std::bad_alloc&) {
    return raise(function, Error(ErrorClass::no_mem, "out of memory"));
  }
}

// --- arguments
// -------------------------------------------------------------------------------------------------------------------------

/// Objects by handle; `argument` is the parameter's name in the standard, for the error's sentence.
Result<Datatype*> find_datatype(MPI_Datatype datatype, const char* argument = "datatype");
/// As `find_datatype`, and committed: what communication needs.
Result<Datatype*> find_committed(MPI_Datatype datatype, const char* argument = "datatype");
Result<Op*> find_op(MPI_Op op);
Result<Group*> find_group(MPI_Group group, const char* argument = "group");
/// MPI_INFO_NULL gives null.
Result<Info*> find_info(MPI_Info info);
Result<Errhandler*> find_errhandler(MPI_Errhandler errhandler);
Result<Communicator*> find_comm(MPI_Comm comm, const char* argument = "comm");

Result<> check_count(MPI_Count count, const char* argument = "count");
/// A rank of the group that messages go to; with `null_allowed`, MPI_PROC_NULL too.
Result<> check_rank(const Communicator& comm, int rank, bool null_allowed, const char* argument);
/// An output pointer that must not be null.
Result<> check_pointer(const void* pointer, const char* argument);
/// A buffer: null is allowed only with no bytes or MPI_BOTTOM's absolute datatypes.
Result<> check_buffer(const void* buffer, MPI_Count count, const Datatype& type, const char* argument);

}  // namespace isthmus::abi
