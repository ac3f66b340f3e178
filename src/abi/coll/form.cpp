#include "abi/coll/form.hpp"

#include "abi/request/status.hpp"

namespace isthmus::abi {

CollectiveOperation::CollectiveOperation(Communicator& comm, Form form)
    : Operation(Ref<Communicator>::share(&comm)),
      driver_(comm.engine()),
      lane_(form == Form::persistent ? coll::Lane::persistent(comm, driver_)
                                     : coll::Lane::nonblocking(comm, driver_)),
      form_(form) {}

Result<> CollectiveOperation::report(MPI_Status& status) {
  store_empty_status(&status);
  if (!outcome_) outcome_ = flow_->result();
  // A member that only sends to who live would not notice.
  if (*outcome_ && was_broken_) outcome_ = std::unexpected(communicator()->why_broken());
  if (*outcome_) return {};
  return fail(outcome_->error().error_class(), outcome_->error().text());
}

void CollectiveOperation::say(WaitItems& items) const noexcept {
  if (!flow_ || flow_->is_done()) return;
  items.add({.kind = wire::WaitItem::Kind::collective,
             .peer = wire::wait_any_peer,
             .tag = static_cast<std::int32_t>(lane_.number),
             .flags = wire::WaitItem::awaited,
             .context = communicator()->context_id(),
             .bytes = wire::wait_unknown_bytes});
}

bool CollectiveOperation::retire(Engine& engine) {
  if (MessageTrace* const trace = engine.trace()) [[unlikely]]
    trace->collective_ends(traced());
  flow_.reset();
  outcome_.reset();
  begun_ = false;
  return form_ == Form::persistent;
}

Result<> CollectiveOperation::start(Runtime& runtime) {
  if (form_ != Form::persistent) return Operation::start(runtime);
  if (begun_) return fail(ErrorClass::request, "request is active already");
  begin();
  return {};
}

Result<> CollectiveOperation::may_free() const {
  if (!begun_) return {};
  return fail(ErrorClass::request,
              "request is a collective operation that is not complete: it must be waited for");
}

}  // namespace isthmus::abi
