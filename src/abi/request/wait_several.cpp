// MPI 5.0, section 3.7.5, but for MPI_Waitall.

#include <mpi.h>

#include "abi/core/entry.hpp"
#include "abi/request/completion.hpp"

namespace isthmus::abi {
namespace {

/// Ends what Waitany and Testany have found.
int finish_any(Runtime& runtime, const char* function, MPI_Request* requests, int found, int* index,
               MPI_Status* status) {
  if (state_of(runtime, requests[found]) == RequestState::invalid)
    return raise_bad_request(function, requests, found);
  *index = found;
  Failure failure;
  return finish(runtime, requests[found], status, failure) ? MPI_SUCCESS : raise(function, failure);
}

/// Ends all that are ready, from entry `first` on.
int finish_some(Runtime& runtime, const char* function, int count, MPI_Request* requests, int first,
                int* outcount, int* indices, MPI_Status* array_of_statuses) {
  Statuses statuses(function, array_of_statuses);
  int completed = 0;
  bool active = true;
  for (int i = first; i < count; i = find_ready(runtime, count, requests, i + 1, active)) {
    if (state_of(runtime, requests[i]) == RequestState::invalid)
      return raise_bad_request(function, requests, i);
    indices[completed] = i;
    Failure failure;
    if (finish(runtime, requests[i], statuses.at(completed), failure))
      statuses.add_success(completed);
    else
      statuses.add(completed, failure);
    ++completed;
  }
  *outcount = completed;
  return statuses.result(completed);
}

}  // namespace

ISTHMUS_ENTRY(int, Testall)
(int count, MPI_Request array_of_requests[], int* flag, MPI_Status* array_of_statuses) {
  return enter("MPI_Testall", [&](Runtime& runtime) {
    constexpr const char* function = "MPI_Testall";
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
    for (int i = 0; i < count; ++i)
      if (!complete_entry(runtime, array_of_requests[i], i, statuses))
        return raise_bad_request(function, array_of_requests, i);
    return statuses.result(count);
  });
}

ISTHMUS_ENTRY(int, Waitany)(int count, MPI_Request array_of_requests[], int* index, MPI_Status* status) {
  return enter("MPI_Waitany", [&](Runtime& runtime) {
    constexpr const char* function = "MPI_Waitany";
    if (int code = check_array(function, count, array_of_requests)) return code;
    if (int code = check_outputs(function, {{index, "index"}})) return code;
    const int found = wait_for_ready(runtime, count, array_of_requests);
    if (found == count) {
      *index = MPI_UNDEFINED;
      store_empty_status(status);
      return MPI_SUCCESS;
    }
    return finish_any(runtime, function, array_of_requests, found, index, status);
  });
}

ISTHMUS_ENTRY(int, Testany)
(int count, MPI_Request array_of_requests[], int* index, int* flag, MPI_Status* status) {
  return enter("MPI_Testany", [&](Runtime& runtime) {
    constexpr const char* function = "MPI_Testany";
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
    return finish_any(runtime, function, array_of_requests, found, index, status);
  });
}

ISTHMUS_ENTRY(int, Waitsome)
(int incount, MPI_Request array_of_requests[], int* outcount, int array_of_indices[],
 MPI_Status* array_of_statuses) {
  return enter("MPI_Waitsome", [&](Runtime& runtime) {
    constexpr const char* function = "MPI_Waitsome";
    if (int code = check_array(function, incount, array_of_requests, "incount")) return code;
    if (int code = check_outputs(function, {{outcount, "outcount"}})) return code;
    if (incount > 0)
      if (int code = check_outputs(function, {{array_of_indices, "array_of_indices"}})) return code;
    const int first = wait_for_ready(runtime, incount, array_of_requests);
    if (first == incount) {
      *outcount = MPI_UNDEFINED;
      return MPI_SUCCESS;
    }
    return finish_some(runtime, function, incount, array_of_requests, first, outcount, array_of_indices,
                       array_of_statuses);
  });
}

ISTHMUS_ENTRY(int, Testsome)
(int incount, MPI_Request array_of_requests[], int* outcount, int array_of_indices[],
 MPI_Status* array_of_statuses) {
  return enter("MPI_Testsome", [&](Runtime& runtime) {
    constexpr const char* function = "MPI_Testsome";
    if (int code = check_array(function, incount, array_of_requests, "incount")) return code;
    if (int code = check_outputs(function, {{outcount, "outcount"}})) return code;
    if (incount > 0)
      if (int code = check_outputs(function, {{array_of_indices, "array_of_indices"}})) return code;
    bool active = false;
    const int first = find_ready_now(runtime, incount, array_of_requests, active);
    if (first == incount) {
      *outcount = active ? 0 : MPI_UNDEFINED;
      return MPI_SUCCESS;
    }
    return finish_some(runtime, function, incount, array_of_requests, first, outcount, array_of_indices,
                       array_of_statuses);
  });
}

}  // namespace isthmus::abi
