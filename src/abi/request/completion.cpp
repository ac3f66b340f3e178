#include "abi/request/completion.hpp"

#include <fmt/format.h>

#include "abi/core/transfer.hpp"
#include "p2p/message/held_up.hpp"

namespace isthmus::abi {

namespace {

struct Handles {
  Runtime& runtime;
  int count;
  const MPI_Request* handles;
};

/// For waits that one of them ends, if there is more than one.
void say_handles(const void* what, WaitItems& items) noexcept {
  const Handles& waited_for = *static_cast<const Handles*>(what);
  if (waited_for.count > 1) items.one_is_enough();
  for (int i = 0; i < waited_for.count; ++i) {
    const Request* const request = find_request(waited_for.runtime, waited_for.handles[i]);
    if (!request || request->orphan) continue;
    if (is_plain(*request))
      items.add(*request, wire::WaitItem::awaited);
    else if (const Operation* const operation = operation_of(*request))
      operation->say(items);
  }
}

/// `operation` must outlive it.
bool report(Operation& operation, MPI_Status* status, Failure& failure) {
  MPI_Status ignored;
  Result<> result = operation.report(status == MPI_STATUS_IGNORE ? ignored : *status);
  if (result) [[likely]]
    return true;
  failure.comm = Ref<Communicator>::share(operation.communicator());
  failure.error = std::move(result).error();
  return false;
}

/// Ends the operation of a request after its report, which was `good` or has set `failure`.
bool end(Runtime& runtime, Request& request, MPI_Request& handle, bool good, Failure& failure) {
  Operation& operation = *operation_of(request);
  if (operation.retire(*runtime.engine)) return good;
  const Ref<RefCounted> last = std::move(request.owner);
  runtime.engine->requests().give_back(&request);
  handle = MPI_REQUEST_NULL;
  Result<> concluded = operation.conclude();
  if (concluded || !good) [[likely]]
    return good;
  failure.comm = Ref<Communicator>::share(operation.communicator());
  failure.error = std::move(concluded).error();
  return false;
}

}  // namespace

RequestState state_of(Runtime& runtime, MPI_Request handle) {
  if (handle == MPI_REQUEST_NULL) return RequestState::inactive;
  if (is_complete_handle(handle)) return RequestState::ready;
  Request* request = find_request(runtime, handle);
  if (!request || request->orphan) [[unlikely]]
    return RequestState::invalid;
  if (is_plain(*request)) return request->complete ? RequestState::ready : RequestState::pending;
  Operation* operation = operation_of(*request);
  if (!operation->active()) return RequestState::inactive;
  return operation->ready() ? RequestState::ready : RequestState::pending;
}

bool report(Runtime& runtime, MPI_Request handle, MPI_Status* status, Failure& failure) {
  if (is_complete_handle(handle)) {
    const bool receive = handle == complete_null_receive();
    store_status(status, receive ? Status::from_null_process() : Status{});
    return true;
  }
  Request& request = *find_request(runtime, handle);
  if (is_plain(request)) {
    store_status(status, request.status);
    if (request.error() == MPI_SUCCESS) [[likely]]
      return true;
    failure.comm = Ref<Communicator>::share(static_cast<Communicator*>(request.owner.get()));
    failure.error = explain_failure(request.error(), request.status, request.payload.bytes);
    return false;
  }
  const auto operation = Ref<Operation>::share(operation_of(request));
  return report(*operation, status, failure);
}

bool finish(Runtime& runtime, MPI_Request& handle, MPI_Status* status, Failure& failure) {
  if (is_complete_handle(handle)) {
    report(runtime, handle, status, failure);
    handle = MPI_REQUEST_NULL;
    return true;
  }
  Request* request = find_request(runtime, handle);
  if (is_plain(*request)) {
    const bool good = report(runtime, handle, status, failure);
    if (!good && is_held_up(*request)) {  // not over: others may still send what is waited for
      resume(*request);
      return false;
    }
    runtime.engine->free(request);
    handle = MPI_REQUEST_NULL;
    return good;
  }
  return finish_operation(runtime, *request, handle, status, failure);
}

bool finish_operation(Runtime& runtime, Request& request, MPI_Request& handle, MPI_Status* status,
                      Failure& failure) {
  Operation& operation = *operation_of(request);
  if (!operation.report_calls_program()) [[likely]]
    return end(runtime, request, handle, report(operation, status, failure), failure);
  const bool good = report(runtime, handle, status, failure);
  Request* const left = find_request(runtime, handle);
  return left ? end(runtime, *left, handle, good, failure) : good;
}

bool is_ready_soon(Runtime& runtime, Operation& operation) {
  if (!operation.active()) return false;
  if (operation.ready()) return true;
  if (runtime.engine->peers_sleep()) return false;
  operation.look();
  return operation.ready();
}

void wait_until_ready(Runtime& runtime, MPI_Request handle, bool has_looked) {
  if (!has_looked && !runtime.engine->peers_sleep()) {
    const Request* const request = find_request(runtime, handle);
    if (request && !is_plain(*request)) operation_of(*request)->look();
  }
  // Looked up again at each look: with several threads, a wrong program can free it meanwhile.
  const Handles one{runtime, 1, &handle};
  runtime.engine->wait_for([&] { return state_of(runtime, handle) != RequestState::pending; },
                           {&say_handles, &one});
}

int raise(const char* function, const Failure& failure) noexcept {
  return raise(function, failure.comm.get(), failure.error);
}

int raise_bad_request(const char* function, MPI_Request handle) noexcept {
  return raise(function, bad_request(handle));
}

int raise_bad_request(const char* function, const MPI_Request* requests, int index) {
  return raise(function, bad_request(requests[index], fmt::format("array_of_requests[{}]", index).c_str()));
}

int check_array(const char* function, int count, const MPI_Request* requests, const char* count_name) {
  if (count < 0)
    return raise(function, Error(ErrorClass::count, fmt::format("{} {} is negative", count_name, count)));
  if (count > 0 && !requests)
    return raise(function, Error(ErrorClass::arg, "array_of_requests is a null pointer"));
  return MPI_SUCCESS;
}

int check_outputs(const char* function, std::initializer_list<std::pair<const void*, const char*>> outputs) {
  for (const auto& [pointer, name] : outputs)
    if (!pointer) return raise(function, Error(ErrorClass::arg, fmt::format("{} is a null pointer", name)));
  return MPI_SUCCESS;
}

bool all_ready(Runtime& runtime, int count, const MPI_Request* requests) {
  for (int i = 0; i < count; ++i)
    if (state_of(runtime, requests[i]) == RequestState::pending) return false;
  return true;
}

int find_ready(Runtime& runtime, int count, const MPI_Request* requests, int first, bool& active) {
  for (int i = first; i < count; ++i) {
    const RequestState state = state_of(runtime, requests[i]);
    if (state == RequestState::inactive) continue;
    active = true;
    if (state != RequestState::pending) return i;
  }
  return count;
}

int find_ready_now(Runtime& runtime, int count, const MPI_Request* requests, bool& active) {
  int index = find_ready(runtime, count, requests, 0, active);
  if (index == count && active) {
    runtime.engine->progress_for_test();
    active = false;
    index = find_ready(runtime, count, requests, 0, active);
  }
  return index;
}

int wait_for_ready(Runtime& runtime, int count, const MPI_Request* requests) {
  int index = count;
  bool active = false;
  const Handles all{runtime, count, requests};
  runtime.engine->wait_for(
      [&] {
        active = false;
        index = find_ready(runtime, count, requests, 0, active);
        return index < count || !active;
      },
      {&say_handles, &all});
  return index;
}

void Statuses::add(int index, const Failure& failure) {
  if (failures_++ == 0) {
    comm_ = failure.comm;
    first_ = failure.error.text();
    for (int i = 0; i < index; ++i)
      set(i, MPI_SUCCESS);
  }
  set(index, note(function_, failure.error));
}

int Statuses::raise_in_status(int completed) const {
  return raise(
      function_, comm_.get(),
      Error(ErrorClass::in_status, fmt::format("{} of {} operations failed; the first: {}", failures_,
                                               completed, first_.empty() ? "see its status" : first_)));
}

bool complete_entry(Runtime& runtime, MPI_Request& handle, int index, Statuses& statuses) {
  if (state_of(runtime, handle) == RequestState::pending) wait_until_ready(runtime, handle);
  switch (state_of(runtime, handle)) {
    case RequestState::pending:
    case RequestState::invalid:
      return false;
    case RequestState::inactive:
      store_empty_status(statuses.at(index));
      statuses.add_success(index);
      return true;
    case RequestState::ready:
      break;
  }
  Failure failure;
  if (finish(runtime, handle, statuses.at(index), failure))
    statuses.add_success(index);
  else
    statuses.add(index, failure);
  return true;
}

}  // namespace isthmus::abi
