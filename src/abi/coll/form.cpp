#include "abi/coll/form.hpp"

#include "abi/request/status.hpp"

namespace isthmus::abi {

CollectiveOperation::CollectiveOperation(Communicator& comm, Begun&& begun)
    : Operation(Ref<Communicator>::share(&comm)),
      driver_(std::move(begun.driver)),
      lane_(begun.lane),
      form_(Form::nonblocking),
      was_broken_(begun.was_broken) {
  if (begun.flow.is_done()) {
    end(begun.flow);
  } else {
    state_ = State::under_way;
    flow_.emplace(std::move(begun.flow));
  }
}

CollectiveOperation::~CollectiveOperation() {
  std::unique_ptr<coll::Driver>& next = Runtime::get().next_driver;
  if (!next && state_ != State::under_way) next = std::move(driver_);  // no flow knows it any more
}

void CollectiveOperation::end(coll::Flow& flow) {
  outcome_ = flow.result();
  // A member that only sends to who live would not notice.
  if (outcome_ && was_broken_) outcome_ = std::unexpected(communicator()->why_broken());
  state_ = State::ended;
}

Result<> CollectiveOperation::report(MPI_Status& status) {
  store_empty_status(&status);
  if (state_ == State::under_way) {
    end(*flow_);
    flow_.reset();
  }
  if (outcome_) return {};
  return fail(outcome_.error().error_class(), outcome_.error().text());
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

bool CollectiveOperation::retire(Engine& engine) {
  if (MessageTrace* const trace = engine.trace()) [[unlikely]]
    trace->collective_ends(traced());
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
