#include "abi/coll/form.hpp"

#include "abi/request/status.hpp"

namespace isthmus::abi {

Result<> CollectiveOperation::report(MPI_Status& status) {
  store_empty_status(&status);
  if (state_ == State::under_way) end(*flow_);
  if (outcome_) return {};
  return fail(outcome_.error().error_class(), outcome_.error().text());
}

void CollectiveOperation::end(coll::Flow& flow) {
  outcome_ = flow.result();
  // A member that only sends to who live would not notice.
  if (outcome_ && was_broken_) outcome_ = std::unexpected(communicator()->why_broken());
  state_ = State::ended;
}

void CollectiveOperation::say(WaitItems& items) const noexcept {
  if (state_ != State::under_way || !flow_ || flow_->is_done()) return;
  items.add({.kind = wire::WaitItem::Kind::collective,
             .peer = wire::wait_any_peer,
             .tag = static_cast<std::int32_t>(lane_.number),
             .flags = wire::WaitItem::awaited,
             .context = communicator()->context_id(),
             .bytes = wire::wait_unknown_bytes});
}

bool CollectiveOperation::retire(Engine&) {
  flow_.reset();
  outcome_ = {};
  state_ = State::inactive;
  return form_ == Form::persistent;
}

Result<> CollectiveOperation::start(Runtime& runtime) {
  if (form_ != Form::persistent) return Operation::start(runtime);
  if (active()) return fail(ErrorClass::request, "request is active already");
  begin();
  return {};
}

Result<> CollectiveOperation::may_free() const {
  if (!active()) return {};
  return may_not_free_collective();
}

}  // namespace isthmus::abi
