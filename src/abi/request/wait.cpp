// MPI 5.0, section 3.7.3 and what of section 3.7.5 programs use most: the functions whose speed counts.

#include <mpi.h>

#include "abi/core/entry.hpp"
#include "abi/request/completion.hpp"

namespace isthmus::abi {
namespace {

[[gnu::noinline]] int wait_slow(Runtime& runtime, MPI_Request* request, MPI_Status* status) {
  constexpr const char* function = "MPI_Wait";
  if (!request) [[unlikely]]
    return check_outputs(function, {{request, "request"}});
  Failure failure;
  bool has_looked = false;
  Request* const found = find_request(runtime, *request);
  if (found && !is_plain(*found) && !found->orphan) [[likely]] {
    if (is_ready_soon(runtime, *operation_of(*found))) [[likely]]
      return finish_operation(runtime, *found, *request, status, failure) ? MPI_SUCCESS
                                                                          : raise(function, failure);
    has_looked = true;
  }
  RequestState state = state_of(runtime, *request);
  if (state == RequestState::pending) {
    wait_until_ready(runtime, *request, has_looked);
    state = state_of(runtime, *request);
  }
  if (state == RequestState::invalid) return raise_bad_request(function, *request);
  if (state == RequestState::inactive) {
    store_empty_status(status);
    return MPI_SUCCESS;
  }
  return finish(runtime, *request, status, failure) ? MPI_SUCCESS : raise(function, failure);
}

/// What most requests are; null for all others.
inline Request* plain_request(Runtime& runtime, MPI_Request handle) noexcept {
  Request* request = find_request(runtime, handle);
  return request && is_plain(*request) && !request->orphan ? request : nullptr;
}

inline void finish_plain(Runtime& runtime, Request* request, MPI_Request& handle, MPI_Status* status) {
  store_status(status, request->status);
  runtime.engine->free(request);
  handle = MPI_REQUEST_NULL;
}

}  // namespace

ISTHMUS_ENTRY(int, Wait)(MPI_Request* request, MPI_Status* status) {
  return enter("MPI_Wait", [&](Runtime& runtime) {
    if (request) [[likely]] {
      if (Request* const found = find_request(runtime, *request); found && !found->orphan) [[likely]] {
        if (is_plain(*found)) [[likely]] {
          if (!found->complete) runtime.engine->wait(*found);
          if (found->error() == MPI_SUCCESS) [[likely]] {
            finish_plain(runtime, found, *request, status);
            return MPI_SUCCESS;
          }
        } else if (operation_of(*found)->end_well(*runtime.engine, status)) {
          return MPI_SUCCESS;
        }
      } else if (*request == complete_send()) {
        store_status(status, Status{});
        *request = MPI_REQUEST_NULL;
        return MPI_SUCCESS;
      }
    }
    return wait_slow(runtime, request, status);
  });
}

namespace {

[[gnu::noinline]] int test_slow(Runtime& runtime, MPI_Request* request, int* flag, MPI_Status* status) {
  constexpr const char* function = "MPI_Test";
  if (!request || !flag) [[unlikely]]
    return check_outputs(function, {{request, "request"}, {flag, "flag"}});
  RequestState state = state_of(runtime, *request);
  if (state == RequestState::pending) {
    runtime.engine->progress_for_test();
    state = state_of(runtime, *request);
  }
  *flag = state == RequestState::pending ? 0 : 1;
  switch (state) {
    case RequestState::pending:
      return MPI_SUCCESS;
    case RequestState::invalid:
      return raise_bad_request(function, *request);
    case RequestState::inactive:
      store_empty_status(status);
      return MPI_SUCCESS;
    case RequestState::ready:
      break;
  }
  Failure failure;
  return finish(runtime, *request, status, failure) ? MPI_SUCCESS : raise(function, failure);
}

}  // namespace

ISTHMUS_ENTRY(int, Test)(MPI_Request* request, int* flag, MPI_Status* status) {
  return enter("MPI_Test", [&](Runtime& runtime) {
    if (request && flag) [[likely]] {
      if (Request* plain = plain_request(runtime, *request)) [[likely]] {
        if (!plain->complete) {
          runtime.engine->progress_for_test();
          if (!plain->complete) {
            *flag = 0;
            return MPI_SUCCESS;
          }
        }
        if (plain->error() == MPI_SUCCESS) [[likely]] {
          *flag = 1;
          finish_plain(runtime, plain, *request, status);
          return MPI_SUCCESS;
        }
      }
    }
    return test_slow(runtime, request, flag, status);
  });
}

ISTHMUS_ENTRY(int, Waitall)(int count, MPI_Request array_of_requests[], MPI_Status* array_of_statuses) {
  return enter("MPI_Waitall", [&](Runtime& runtime) {
    constexpr const char* function = "MPI_Waitall";
    if (int code = check_array(function, count, array_of_requests)) return code;
    Statuses statuses(function, array_of_statuses);
    for (int i = 0; i < count; ++i) {
      MPI_Request& handle = array_of_requests[i];
      if (handle == complete_send()) {
        store_status(statuses.at(i), Status{});
        statuses.add_success(i);
        handle = MPI_REQUEST_NULL;
        continue;
      }
      if (Request* plain = plain_request(runtime, handle)) [[likely]] {
        if (!plain->complete) runtime.engine->wait(*plain);
        if (plain->error() == MPI_SUCCESS) [[likely]] {
          finish_plain(runtime, plain, handle, statuses.at(i));
          statuses.add_success(i);
          continue;
        }
      }
      if (!complete_entry(runtime, handle, i, statuses))
        return raise_bad_request(function, array_of_requests, i);
    }
    return statuses.result(count);
  });
}

}  // namespace isthmus::abi
