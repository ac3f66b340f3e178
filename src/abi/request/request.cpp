#include "abi/request/request.hpp"

namespace isthmus::abi {

Result<> Operation::cancel(Engine&) {
  return may_not_cancel();
}

Result<> Operation::start(Runtime&) {
  return fail(ErrorClass::request, "request is not persistent");
}

MPI_Request publish(Runtime& runtime, Ref<Operation> operation, Request::Kind kind) {
  Request* carrier = runtime.engine->requests().take(kind);
  carrier->owner = std::move(operation);
  return handle_of(*carrier);
}

void abandon_part(Runtime& runtime, Request*& part, Operation& owner) {
  if (!part) return;
  if (!part->complete) {
    runtime.release_orphans();
    runtime.orphans.push_back({part->cookie(), Ref<RefCounted>(Ref<Operation>::share(&owner))});
  }
  runtime.engine->free(std::exchange(part, nullptr));
}

std::unexpected<Error> may_not_free_collective() {
  return fail(ErrorClass::request,
              "request is a collective operation that is not complete: it must be waited for");
}

std::unexpected<Error> may_not_cancel() {
  return fail(ErrorClass::request, "request cannot be cancelled");
}

Error bad_request(MPI_Request handle, const char* argument) {
  return bad_handle(ErrorClass::request, argument, handle, HandleKind::request);
}

}  // namespace isthmus::abi
