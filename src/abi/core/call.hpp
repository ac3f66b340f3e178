#pragma once

#include <mpi.h>

#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include "abi/core/error.hpp"
#include "abi/core/runtime.hpp"
#include "base/error.hpp"
#include "coll/agree/circle.hpp"

/// How an entry point is written: `call` holds the lock, refuses calls outside of init..finalize, finds the
/// communicator, runs the body and raises what the body returns. Bodies look other arguments up with the
/// functions below, which return errors that say which argument was wrong.
///
///     ISTHMUS_ENTRY(int, Barrier)(MPI_Comm comm) {
///       return call("MPI_Barrier", comm, [&](Communicator& c) { return coll::barrier(c); });
///     }
namespace isthmus::abi {

/// What a call keeps alive while it lets go of the lock: another thread may free the handle meanwhile, and
/// MPI wants the operation to complete all the same (MPI 5.0, sections 2.4.1 and 2.5.1).
struct Kept {
  Ref<RefCounted> object;
  Kept* next;
};
/// Keeps `object` alive until this thread's call has ended. With the lock held.
void keep_alive(RefCounted& object);
/// For one thread, whose calls nobody comes between, that is one branch.
inline void keep(Runtime& runtime, RefCounted& object) {
  if (runtime.lock().enabled()) [[unlikely]]
    keep_alive(object);
}

// The guards' fields stay in registers, because what is not inlined gets values. With their addresses, an
// MPI_Send of 8 B took 5 instructions more.

/// Takes the lock for one MPI call of this thread. What calls around it have kept, which `end_call` gets
/// back.
/// `function`: its name, for who traces calls; null: not traced.
[[nodiscard]] Kept* begin_call(EngineLock& lock, const char* function);
/// Lets go of what the call has kept, and of the lock. `is_traced`: `begin_call` was given a name.
void end_call(EngineLock& lock, Kept* around, bool is_traced) noexcept;

/// Holds the engine's lock for one MPI call, and keeps alive what the call has looked up. With one thread
/// that nobody traces that is one branch at its begin and one at its end.
class CallGuard {
 public:
  explicit CallGuard(Runtime& runtime, const char* function = nullptr)
      : lock_(runtime.lock()), function_(function), attended_(lock_.attended()) {
    if (attended_) [[unlikely]]
      around_ = begin_call(lock_, function_);
  }
  ~CallGuard() {
    if (attended_) [[unlikely]]
      end_call(lock_, around_, function_ != nullptr);
  }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

 private:
  EngineLock& lock_;
  const char* const function_;
  const bool attended_;
  Kept* around_ = nullptr;  ///< with `attended_`
};

/// The same for a call on a communicator, which another thread may free while this one waits: it lives until
/// the call has ended.
class CommunicatorGuard {
 public:
  CommunicatorGuard(Runtime& runtime, MPI_Comm comm, const char* function)
      : lock_(runtime.lock()), attended_(lock_.attended()) {
    if (attended_) [[unlikely]] {
      around_ = begin_call(lock_, function);
      communicator_ = hold(runtime, comm);
    } else {
      communicator_ = runtime.communicators.find(comm);
    }
  }
  ~CommunicatorGuard() {
    if (attended_) [[unlikely]]
      end(lock_, communicator_, around_);
  }
  CommunicatorGuard(const CommunicatorGuard&) = delete;
  CommunicatorGuard& operator=(const CommunicatorGuard&) = delete;

  /// Null where the handle is none of a communicator.
  [[nodiscard]] Communicator* communicator() const noexcept { return communicator_; }

 private:
  static Communicator* hold(Runtime& runtime, MPI_Comm comm) noexcept;
  static void end(EngineLock& lock, Communicator* communicator, Kept* around) noexcept;

  EngineLock& lock_;
  const bool attended_;
  Communicator* communicator_;
  Kept* around_ = nullptr;  ///< with `attended_`
};

// The functions that run bodies are inlined always: else the arguments of an entry that shares its body with
// its large-count form would go through memory.

/// Between MPI_Init and MPI_Finalize, with the lock held. `body`: `int(Runtime&)`, which has raised its
/// errors itself. No exception leaves it.
template <class Body>
[[gnu::always_inline]] inline int enter(const char* function, Body&& body) noexcept {
  Runtime& runtime = Runtime::get();
  if (!runtime.running()) [[unlikely]]
    return raise_not_running(function);
  CallGuard guard(runtime, function);
  try {
    return body(runtime);
  } catch (...) {
    return raise_exception(function, nullptr);
  }
}

/// For functions with a communicator, which owns the error handler. `body`: `Result<>(Communicator&)`. No
/// exception leaves it: `std::bad_alloc` becomes MPI_ERR_NO_MEM.
template <class Body>
[[gnu::always_inline]] inline int call(const char* function, MPI_Comm comm, Body&& body) noexcept {
  Runtime& runtime = Runtime::get();
  if (!runtime.running()) [[unlikely]]
    return raise_not_running(function);
  const CommunicatorGuard guard(runtime, comm, function);
  Communicator* const communicator = guard.communicator();
  if (!communicator) [[unlikely]]
    return raise_bad_comm(function, comm);
  try {
    Result<> result = body(*communicator);
    if (result) [[likely]]
      return MPI_SUCCESS;
    // The body may have freed the communicator.
    return raise(function, runtime.communicators.find(comm), result.error());
  } catch (...) {
    return raise_exception(function, runtime.communicators.find(comm));
  }
}

/// For functions without a communicator, between MPI_Init and MPI_Finalize. `body`: `Result<>(Runtime&)`.
template <class Body>
[[gnu::always_inline]] inline int call(const char* function, Body&& body) noexcept {
  return enter(function, [&](Runtime& runtime) {
    Result<> result = body(runtime);
    if (result) [[likely]]
      return MPI_SUCCESS;
    return raise(function, result.error());
  });
}

/// The same for functions that all threads may call at any time, before MPI_Init and after MPI_Finalize too
/// (MPI 5.0, section 11.4.1).
template <class Body>
[[gnu::always_inline]] inline int call_any_time(const char* function, Body&& body) noexcept {
  Runtime& runtime = Runtime::get();
  if (runtime.world_phase() == Phase::forked) [[unlikely]]
    return raise_not_running(function);
  CallGuard guard(runtime, function);
  std::lock_guard early(runtime.early_lock());
  try {
    Result<> result = body(runtime);
    if (result) [[likely]]
      return MPI_SUCCESS;
    return raise(function, result.error());
  } catch (...) {
    return raise_exception(function, nullptr);
  }
}

// --- arguments
// -------------------------------------------------------------------------------------------------------------------------

/// The sentence for a handle that names no living object of the kind that `argument` has to be.
[[gnu::cold]] Error bad_handle(ErrorClass error_class, const char* argument, std::uintptr_t handle,
                               HandleKind wanted);
template <class Handle>
[[gnu::cold]] Error bad_handle(ErrorClass error_class, const char* argument, Handle* handle,
                               HandleKind wanted) {
  return bad_handle(error_class, argument, reinterpret_cast<std::uintptr_t>(handle), wanted);
}

/// Objects by handle, kept alive until the call has ended; `argument` is the parameter's name in the
/// standard, for the error's sentence.
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
/// The tag of a message to send.
Result<> check_tag(int tag, const char* argument = "tag");
/// An output pointer that must not be null.
Result<> check_pointer(const void* pointer, const char* argument);
/// A buffer: null is allowed only with no bytes or MPI_BOTTOM's absolute datatypes.
Result<> check_buffer(const void* buffer, MPI_Count count, const Datatype& type, const char* argument);

/// For results that the forms without `_c` return in an int.
inline constexpr bool fits_int(MPI_Count value) noexcept {
  return value >= std::numeric_limits<int>::min() && value <= std::numeric_limits<int>::max();
}

}  // namespace isthmus::abi
