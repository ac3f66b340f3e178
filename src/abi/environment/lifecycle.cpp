// MPI 5.0, section 11.2: initializing, finalizing and aborting.

#include <mpi.h>

#include <fmt/format.h>

#include <mutex>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"

namespace isthmus::abi {
namespace {

int init(const char* function, int required) noexcept {
  Runtime& runtime = Runtime::get();
  if (runtime.world_phase() == Phase::forked) return raise_not_running(function);
  std::lock_guard early(runtime.early_lock());
  if (const Phase phase = runtime.world_phase(); phase != Phase::before_init)
    return raise(function,
                 Error(ErrorClass::other, phase == Phase::running
                                              ? "MPI is initialized already"
                                              : "MPI was finalized, and cannot be initialized again"));
  try {
    if (Result<> opened = runtime.open_world(required); !opened) return raise(function, opened.error());
  } catch (...) {
    return raise_exception(function, nullptr);
  }
  return MPI_SUCCESS;
}

}  // namespace

ISTHMUS_ENTRY(int, Init)(int*, char***) {
  return init("MPI_Init", MPI_THREAD_SINGLE);
}

ISTHMUS_ENTRY(int, Init_thread)(int*, char***, int required, int* provided) {
  constexpr const char* function = "MPI_Init_thread";
  if (!provided) return raise(function, Error(ErrorClass::arg, "provided is a null pointer"));
  if (int code = init(function, required)) return code;
  *provided = Runtime::get().thread_level;
  return MPI_SUCCESS;
}

ISTHMUS_ENTRY(int, Finalize)() {
  Runtime& runtime = Runtime::get();
  if (runtime.world_phase() != Phase::running) return raise_not_running("MPI_Finalize");
  try {
    // The lock of the engine is held to the end, so that a thread that is still in MPI ends its call first.
    CallGuard guard(runtime, "MPI_Finalize");
    Result<> finished = runtime.close_world();
    return finished ? MPI_SUCCESS : raise("MPI_Finalize", finished.error());
  } catch (...) {
    return raise_exception("MPI_Finalize", nullptr);
  }
}

// These may be called by any thread at any time and take no lock.

ISTHMUS_ENTRY(int, Initialized)(int* flag) {
  if (!flag) return raise("MPI_Initialized", Error(ErrorClass::arg, "flag is a null pointer"));
  *flag = Runtime::get().world_phase() != Phase::before_init ? 1 : 0;
  return MPI_SUCCESS;
}

ISTHMUS_ENTRY(int, Finalized)(int* flag) {
  if (!flag) return raise("MPI_Finalized", Error(ErrorClass::arg, "flag is a null pointer"));
  // In the child of a fork, too: who asks before it calls MPI_Finalize, as exit handlers do, then leaves it
  // alone.
  *flag = Runtime::get().world_phase() >= Phase::finalized ? 1 : 0;
  return MPI_SUCCESS;
}

ISTHMUS_ENTRY(int, Query_thread)(int* provided) {
  return call("MPI_Query_thread", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(provided, "provided"));
    *provided = runtime.thread_level;
    return {};
  });
}

ISTHMUS_ENTRY(int, Is_thread_main)(int* flag) {
  return call("MPI_Is_thread_main", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(flag, "flag"));
    *flag = std::this_thread::get_id() == runtime.main_thread ? 1 : 0;
    return {};
  });
}

ISTHMUS_ENTRY(int, Abort)(MPI_Comm comm, int errorcode) {
  // Without the lock: whatever a thread that holds it waits for may be why the program aborts.
  Runtime& runtime = Runtime::get();
  const std::string_view name = comm == MPI_COMM_WORLD  ? "MPI_COMM_WORLD"
                                : comm == MPI_COMM_SELF ? "MPI_COMM_SELF"
                                                        : "a communicator";
  runtime.abort_job(
      errorcode, fmt::format("{}: MPI_Abort was called on {} with code {}", runtime.who(), name, errorcode));
}

}  // namespace isthmus::abi
