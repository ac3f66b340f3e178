// MPI 5.0, section 3.7.6: looking at operations without completing them.

#include <mpi.h>

#include "abi/core/entry.hpp"
#include "abi/request/completion.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Request_get_status)(MPI_Request request, int* flag, MPI_Status* status) {
  return enter("MPI_Request_get_status", [&](Runtime& runtime) {
    constexpr const char* function = "MPI_Request_get_status";
    if (int code = check_outputs(function, {{flag, "flag"}})) return code;
    bool active = false;
    const int found = find_ready_now(runtime, 1, &request, active);
    if (found == 1) {
      *flag = active ? 0 : 1;
      if (!active) store_empty_status(status);
      return MPI_SUCCESS;
    }
    if (state_of(runtime, request) == RequestState::invalid) return raise_bad_request(function, request);
    *flag = 1;
    Failure failure;
    return report(runtime, request, status, failure) ? MPI_SUCCESS : raise(function, failure);
  });
}

ISTHMUS_ENTRY(int, Request_get_status_any)
(int count, const MPI_Request array_of_requests[], int* index, int* flag, MPI_Status* status) {
  return enter("MPI_Request_get_status_any", [&](Runtime& runtime) {
    constexpr const char* function = "MPI_Request_get_status_any";
    if (int code = check_array(function, count, array_of_requests)) return code;
    if (int code = check_outputs(function, {{index, "index"}, {flag, "flag"}})) return code;
    bool active = false;
    const int found = find_ready_now(runtime, count, array_of_requests, active);
    *flag = found < count || !active ? 1 : 0;
    if (found == count) {
      *index = MPI_UNDEFINED;
      if (!active) store_empty_status(status);
      return MPI_SUCCESS;
    }
    if (state_of(runtime, array_of_requests[found]) == RequestState::invalid)
      return raise_bad_request(function, array_of_requests, found);
    *index = found;
    Failure failure;
    return report(runtime, array_of_requests[found], status, failure) ? MPI_SUCCESS
                                                                      : raise(function, failure);
  });
}

ISTHMUS_ENTRY(int, Request_get_status_all)
(int count, const MPI_Request array_of_requests[], int* flag, MPI_Status* array_of_statuses) {
  return enter("MPI_Request_get_status_all", [&](Runtime& runtime) {
    constexpr const char* function = "MPI_Request_get_status_all";
    if (int code = check_array(function, count, array_of_requests)) return code;
    if (int code = check_outputs(function, {{flag, "flag"}})) return code;
    if (!all_ready(runtime, count, array_of_requests)) {
      runtime.engine->progress_for_test();
      if (!all_ready(runtime, count, array_of_requests)) {
        *flag = 0;
        return MPI_SUCCESS;
      }
    }
    *flag = 1;
    Statuses statuses(function, array_of_statuses);
    for (int i = 0; i < count; ++i) {
      const RequestState state = state_of(runtime, array_of_requests[i]);
      Failure failure;
      if (state == RequestState::invalid) return raise_bad_request(function, array_of_requests, i);
      if (state == RequestState::inactive)
        store_empty_status(statuses.at(i));
      else if (!report(runtime, array_of_requests[i], statuses.at(i), failure)) {
        statuses.add(i, failure);
        continue;
      }
      statuses.add_success(i);
    }
    return statuses.result(count);
  });
}

ISTHMUS_ENTRY(int, Request_get_status_some)
(int incount, const MPI_Request array_of_requests[], int* outcount, int array_of_indices[],
 MPI_Status* array_of_statuses) {
  return enter("MPI_Request_get_status_some", [&](Runtime& runtime) {
    constexpr const char* function = "MPI_Request_get_status_some";
    if (int code = check_array(function, incount, array_of_requests, "incount")) return code;
    if (int code = check_outputs(function, {{outcount, "outcount"}})) return code;
    if (incount > 0)
      if (int code = check_outputs(function, {{array_of_indices, "array_of_indices"}})) return code;
    bool active = false;
    int found = find_ready_now(runtime, incount, array_of_requests, active);
    if (found == incount) {
      *outcount = active ? 0 : MPI_UNDEFINED;
      return MPI_SUCCESS;
    }
    Statuses statuses(function, array_of_statuses);
    int completed = 0;
    for (; found < incount; found = find_ready(runtime, incount, array_of_requests, found + 1, active)) {
      if (state_of(runtime, array_of_requests[found]) == RequestState::invalid)
        return raise_bad_request(function, array_of_requests, found);
      array_of_indices[completed] = found;
      Failure failure;
      if (report(runtime, array_of_requests[found], statuses.at(completed), failure))
        statuses.add_success(completed);
      else
        statuses.add(completed, failure);
      ++completed;
    }
    *outcount = completed;
    return statuses.result(completed);
  });
}

}  // namespace isthmus::abi
