// MPI 5.0, section 13.2: generalized requests, which the program completes.

#include <mpi.h>

#include "abi/core/entry.hpp"
#include "abi/request/request.hpp"

namespace isthmus::abi {
namespace {

Result<> result_of(int code) {
  if (code == MPI_SUCCESS) return {};
  return std::unexpected(Error::from_code(code));
}

/// The callbacks of a generalized request. Whether it is complete is in its `Request`.
class GeneralizedRequest final : public Operation {
 public:
  GeneralizedRequest(MPI_Grequest_query_function* query, MPI_Grequest_free_function* free,
                     MPI_Grequest_cancel_function* cancel, void* extra_state)
      : Operation({}), query_(query), free_(free), cancel_(cancel), extra_state_(extra_state) {}

  void complete() { complete_ = true; }
  bool ready() override { return complete_; }
  Result<> report(MPI_Status& status) override {
    store_empty_status(&status);
    return result_of(query_ ? query_(extra_state_, &status) : MPI_SUCCESS);
  }
  [[nodiscard]] bool report_calls_program() const noexcept override { return true; }
  Result<> conclude() override { return result_of(free_ ? free_(extra_state_) : MPI_SUCCESS); }
  bool retire(Engine&) override { return false; }
  Result<> cancel(Engine&) override {
    return result_of(cancel_ ? cancel_(extra_state_, complete_ ? 1 : 0) : MPI_SUCCESS);
  }
  bool abandon(Runtime&, Request& carrier) override {
    carrier.orphan = !complete_;  // MPI_Grequest_complete still needs the handle
    return complete_;
  }

 private:
  MPI_Grequest_query_function* query_;
  MPI_Grequest_free_function* free_;
  MPI_Grequest_cancel_function* cancel_;
  void* extra_state_;
  bool complete_ = false;
};

}  // namespace

ISTHMUS_ENTRY(int, Grequest_start)
(MPI_Grequest_query_function* query_fn, MPI_Grequest_free_function* free_fn,
 MPI_Grequest_cancel_function* cancel_fn, void* extra_state, MPI_Request* request) {
  return call("MPI_Grequest_start", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(request, "request"));
    *request = publish(runtime, make_ref<GeneralizedRequest>(query_fn, free_fn, cancel_fn, extra_state),
                       Request::Kind::generalized);
    return {};
  });
}

ISTHMUS_ENTRY(int, Grequest_complete)(MPI_Request request) {
  return call("MPI_Grequest_complete", [&](Runtime& runtime) -> Result<> {
    Request* found = find_request(runtime, request);
    if (!found) return std::unexpected(bad_request(request));
    const auto operation = Ref<Operation>::share(operation_of(*found));
    auto* generalized = dynamic_cast<GeneralizedRequest*>(operation.get());
    if (!generalized) return fail(ErrorClass::request, "request is not a generalized request");
    if (generalized->ready()) return fail(ErrorClass::request, "request is complete already");
    generalized->complete();
    if (found->orphan) {
      runtime.engine->requests().give_back(found);
      return generalized->conclude();
    }
    runtime.engine->complete(*found);  // wakes threads that wait for it
    return {};
  });
}

}  // namespace isthmus::abi
