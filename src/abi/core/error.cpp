#include "abi/core/error.hpp"

#include <fmt/format.h>

#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "abi/core/call.hpp"
#include "abi/core/runtime.hpp"

namespace isthmus::abi {
namespace {

/// The last sentence of each code in this thread.
std::map<int, std::string>& sentences() {
  thread_local std::map<int, std::string> of_thread;
  return of_thread;
}

std::string_view class_name(int error_class) {
  const ErrorClassInfo* info = predefined_class(error_class);
  return info ? info->name : "a class of the program";
}

std::string describe(const char* function, const Error& error) {
  if (!error.text().empty()) return fmt::format("{}: {}", function, error.text());
  const ErrorClassInfo* info = predefined_class(error.code());
  return fmt::format("{}: {}", function, info ? info->sentence : "a function of the program failed");
}

/// Whose error handler an error is for; null: nobody's. What concerns no communicator concerns MPI_COMM_SELF
/// (MPI 5.0, section 9.3). Before MPI 4.0 that was MPI_COMM_WORLD, and programs of that time set its handler
/// alone: it holds as long as MPI_COMM_SELF has been given none.
Communicator* concerned(Runtime& runtime, Communicator* comm) {
  if (!runtime.running()) return nullptr;
  if (comm && comm->errhandler) return comm;
  return runtime.self_has_errhandler ? runtime.self : runtime.world;
}

[[noreturn]] void abort_with(int code, const std::string& message, std::string_view handler) noexcept {
  Runtime& runtime = Runtime::get();
  std::string line;
  try {
    line = fmt::format("{}: {}; {}", runtime.who(), message, handler);
  } catch (const std::bad_alloc&) {
    line = "out of memory";
  }
  runtime.abort_job(code, line);
}

}  // namespace

int note(const char* function, const Error& error) noexcept {
  try {
    sentences()[error.code()] = describe(function, error);
  } catch (const std::bad_alloc&) {
    // The code still goes to the program; an older sentence must not go with it.
    sentences().erase(error.code());
  }
  return error.code();
}

std::string error_string(int code) {
  const auto noted = sentences().find(code);
  if (noted != sentences().end())
    return predefined_class(code) ? fmt::format("{} ({})", noted->second, class_name(code)) : noted->second;
  if (const ErrorClassInfo* info = predefined_class(code))
    return fmt::format("{}: {}", info->name, info->sentence);
  return {};
}

int invoke(const Errhandler& handler, std::uintptr_t object, int code, const std::string& message) noexcept {
  switch (handler.action()) {
    case Errhandler::Action::report:
      return code;
    case Errhandler::Action::call: {
      const auto alive = Ref<const Errhandler>::share(&handler);  // the function may replace it
      handler.function()(object, code);
      return code;
    }
    case Errhandler::Action::abort:
      abort_with(code, message, "MPI_ERRORS_ABORT");
    case Errhandler::Action::fatal:
      break;
  }
  abort_with(code, message, "MPI_ERRORS_ARE_FATAL");
}

int raise(const char* function, Communicator* comm, const Error& error) noexcept {
  Runtime& runtime = Runtime::get();
  if (runtime.world_phase() == Phase::forked) raise_not_running(function);
  const int code = note(function, error);
  Communicator* const object = concerned(runtime, comm);
  const Errhandler* const handler = object ? object->errhandler.get() : nullptr;
  if (handler && handler->action() == Errhandler::Action::report) return code;
  const std::string message = [&]() -> std::string {
    try {
      std::lock_guard early(runtime.early_lock());
      const int error_class = runtime.error_codes.class_of(code).value_or(MPI_ERR_UNKNOWN);
      return fmt::format("{} ({})", describe(function, error), class_name(error_class));
    } catch (const std::bad_alloc&) {
      return "out of memory";  // so short that it needs none
    }
  }();
  if (handler) return invoke(*handler, object->handle, code, message);
  abort_with(code, message, "MPI_ERRORS_ARE_FATAL");
}

int raise(const char* function, const Error& error) noexcept {
  return raise(function, nullptr, error);
}

int raise_exception(const char* function, Communicator* comm) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return raise(function, comm, Error(ErrorClass::no_mem, "out of memory"));
  } catch (const std::exception& exception) {
    return raise(function, comm, Error(ErrorClass::intern, exception.what()));
  } catch (...) {
    return raise(function, comm, Error(ErrorClass::intern, "an exception of unknown type"));
  }
}

int raise_not_running(const char* function) noexcept {
  Runtime& runtime = Runtime::get();
  if (runtime.world_phase() == Phase::forked)
    runtime.abort_job(MPI_ERR_OTHER, fmt::format("{}: {}: {}", runtime.who(), function, in_child));
  const bool early = runtime.world_phase() == Phase::before_init;
  runtime.abort_job(MPI_ERR_OTHER, fmt::format("{}: {} was called {}", runtime.who(), function,
                                               early ? "before MPI_Init" : "after MPI_Finalize"));
}

int raise_bad_comm(const char* function, MPI_Comm comm) noexcept {
  return raise(function, nullptr, bad_handle(ErrorClass::comm, "comm", comm, HandleKind::comm));
}

int unsupported(const char* function) noexcept {
  return unsupported(function, MPI_COMM_NULL);
}

int unsupported(const char* function, MPI_Comm comm) noexcept {
  Runtime& runtime = Runtime::get();
  const Error error(
      ErrorClass::unsupported_operation,
      "this release of Isthmus does not implement it yet (isthmus info --coverage tells what it does)");
  if (std::string_view(function).starts_with("MPI_T_")) return note(function, error);
  if (!runtime.running()) return raise(function, nullptr, error);
  CallGuard guard(runtime);
  return raise(function, runtime.communicators.find(comm), error);
}

}  // namespace isthmus::abi
