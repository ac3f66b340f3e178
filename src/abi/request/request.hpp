#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "abi/core/call.hpp"
#include "abi/core/handle.hpp"
#include "abi/core/runtime.hpp"
#include "abi/request/status.hpp"
#include "base/error.hpp"
#include "base/frame_pool.hpp"
#include "base/ref.hpp"
#include "comm/communicator.hpp"
#include "p2p/message/request.hpp"

/// What the handles of requests stand for. Most are a `Request` of the engine, whose owner is then its
/// communicator. A message that was complete when it was started has no request, only a handle value that
/// says so; a collective has one without an owner. Everything else is an `Operation`, owned by a `Request`
/// that only carries its handle.
namespace isthmus::abi {

/// Handles of operations that were complete at once; no index of the pool comes near theirs.
inline constexpr std::uintptr_t complete_send_value = HandleValue::make(HandleKind::request, 0, 0xffff'0000);
inline constexpr std::uintptr_t complete_null_receive_value = complete_send_value + 1;

inline std::uintptr_t value_of(MPI_Request handle) noexcept {
  return reinterpret_cast<std::uintptr_t>(handle);
}
inline MPI_Request complete_send() noexcept {
  return reinterpret_cast<MPI_Request>(complete_send_value);
}
inline MPI_Request complete_null_receive() noexcept {
  return reinterpret_cast<MPI_Request>(complete_null_receive_value);
}
inline bool is_complete_handle(MPI_Request handle) noexcept {
  return value_of(handle) - complete_send_value <= 1;
}

inline MPI_Request handle_of(const Request& request) noexcept {
  return reinterpret_cast<MPI_Request>(
      HandleValue::make(HandleKind::request, request.generation, request.index));
}

/// The request of the engine behind a handle; null if there is none (null and complete handles included).
inline Request* find_request(Runtime& runtime, MPI_Request handle) noexcept {
  const std::uintptr_t value = value_of(handle);
  if (value >> 56 != static_cast<std::uintptr_t>(HandleKind::request)) [[unlikely]]
    return nullptr;
  return runtime.engine->requests().find(HandleValue::index(value),
                                         static_cast<std::uint32_t>(value >> 32) & 0xff'ffff);
}

/// Gives a request that was just started to the program.
inline MPI_Request publish(Request& request, Communicator& comm) {
  request.owner = Ref<Communicator>::share(&comm);
  return handle_of(request);
}

/// Whether the request stands for itself: a message of the engine, or a collective that is complete. All
/// others carry an `Operation`.
inline bool is_plain(const Request& request) noexcept {
  using enum Request::Kind;
  return request.kind == send || request.kind == receive || request.kind == collective;
}

/// A request that is more, or less, than one message of the engine. Guarded by the engine's lock.
class Operation : public RefCounted {
 public:
  /// `comm` owns the error handler; empty for that of MPI_COMM_SELF.
  explicit Operation(Ref<Communicator> comm) : comm_(std::move(comm)) {}

  // From a pool: they come and go with each call that does not block.
  static void* operator new(std::size_t bytes) { return Runtime::get().operations.take(bytes); }
  static void operator delete(void* memory) noexcept { FramePool::give_back(memory); }

  [[nodiscard]] Communicator* communicator() const noexcept { return comm_.get(); }

  /// Whether there is something to wait for; false for a persistent request that is not started.
  [[nodiscard]] virtual bool active() const noexcept { return true; }
  /// Whether a wait would return at once. Makes no progress.
  [[nodiscard]] virtual bool ready() = 0;
  /// Before a wait by a rank with a core of its own: looks for about a microsecond where that may be enough.
  virtual void look() {}
  /// What a wait for it waits for, where it says so.
  virtual void say(WaitItems&) const noexcept {}
  /// What wait and test report once it is ready. Fills in `status`, which is not MPI_STATUS_IGNORE.
  virtual Result<> report(MPI_Status& status) = 0;
  /// Whether `report` calls the program, which may free the request.
  [[nodiscard]] virtual bool report_calls_program() const noexcept { return false; }
  /// What must be done for the program when the operation ends, whether reported or freed.
  virtual Result<> conclude() { return {}; }
  /// Ends the operation after its report. True if the handle lives on, as that of a persistent request does.
  virtual bool retire(Engine& engine) = 0;
  /// Of a persistent request: where it is ready and has succeeded, does what `report` and `retire` do, and
  /// more quickly. False: it has done nothing. `status` may be MPI_STATUS_IGNORE.
  virtual bool end_well(Engine&, MPI_Status* /*status*/) { return false; }
  virtual Result<> cancel(Engine& engine);
  /// MPI_Start; only persistent requests can be started.
  virtual Result<> start(Runtime& runtime);
  /// Whether the program may free it now.
  [[nodiscard]] virtual Result<> may_free() const { return {}; }
  /// MPI_Request_free: what is under way goes on without a handle. True if `carrier` may go at once.
  virtual bool abandon(Runtime& runtime, Request& carrier) = 0;

 private:
  Ref<Communicator> comm_;
};

/// The operation that `request` carries; null for messages.
inline Operation* operation_of(const Request& request) noexcept {
  return is_plain(request) ? nullptr : static_cast<Operation*>(request.owner.get());
}
/// Gives `operation` a request, and that to the program. `kind` is `persistent` or `generalized`.
MPI_Request publish(Runtime& runtime, Ref<Operation> operation, Request::Kind kind);
/// The same for one that others take part in: it is published first, because from `begin` on it must not be
/// lost. Where `begin` has no memory its handle goes, too, and `request` stays as it is.
template <class Begin>
void publish_and_begin(Runtime& runtime, Ref<Operation> operation, MPI_Request* request, Begin begin) {
  MPI_Request handle = publish(runtime, std::move(operation), Request::Kind::generalized);
  try {
    begin();
  } catch (...) {
    runtime.engine->requests().give_back(find_request(runtime, handle));
    throw;
  }
  *request = handle;
}

/// Part of an operation: sees to it that the message goes on, and its memory lives as long.
void abandon_part(Runtime& runtime, Request*& part, Operation& owner);

/// Why the program may neither free nor cancel a collective before it has waited for it.
[[gnu::cold]] std::unexpected<Error> may_not_free_collective();
[[gnu::cold]] std::unexpected<Error> may_not_cancel();
/// Why a handle is no request.
[[gnu::cold]] Error bad_request(MPI_Request handle, const char* argument = "request");

}  // namespace isthmus::abi
