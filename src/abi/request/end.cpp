// MPI 5.0, MPI_Request_free (section 3.7.3) and section 3.8.4: ending operations early.

#include <mpi.h>

#include "abi/core/entry.hpp"
#include "abi/request/completion.hpp"
#include "p2p/message/held_up.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Request_free)(MPI_Request* request) {
  return call("MPI_Request_free", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(request, "request"));
    if (!is_complete_handle(*request)) {
      Request* found = find_request(runtime, *request);
      if (!found || found->orphan) return std::unexpected(bad_request(*request));
      if (found->kind == Request::Kind::collective) return may_not_free_collective();
      if (is_plain(*found)) {
        resume(*found);
        if (!found->complete) {
          runtime.release_orphans();
          runtime.orphans.push_back({found->cookie(), std::move(found->owner)});
        }
        runtime.engine->free(found);
      } else {
        const auto operation = Ref<Operation>::share(operation_of(*found));
        ISTHMUS_TRY(operation->may_free());
        if (operation->abandon(runtime, *found)) {
          runtime.engine->requests().give_back(found);
          *request = MPI_REQUEST_NULL;
          return operation->conclude();
        }
      }
    }
    *request = MPI_REQUEST_NULL;
    return {};
  });
}

ISTHMUS_ENTRY(int, Cancel)(MPI_Request* request) {
  return call("MPI_Cancel", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(request, "request"));
    if (is_complete_handle(*request)) return {};
    Request* found = find_request(runtime, *request);
    if (!found || found->orphan) return std::unexpected(bad_request(*request));
    if (found->kind == Request::Kind::collective) return may_not_cancel();
    if (is_plain(*found)) {
      runtime.engine->cancel(*found);
      return {};
    }
    const auto operation = Ref<Operation>::share(operation_of(*found));
    if (!operation->active()) return fail(ErrorClass::request, "request is persistent and not active");
    return operation->cancel(*runtime.engine);
  });
}

ISTHMUS_ENTRY(int, Test_cancelled)(const MPI_Status* status, int* flag) {
  return call("MPI_Test_cancelled", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(status, "status"));
    ISTHMUS_TRY(check_pointer(flag, "flag"));
    *flag = status_cancelled(*status) ? 1 : 0;
    return {};
  });
}

}  // namespace isthmus::abi
