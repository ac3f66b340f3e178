#include "coll/flow/ranks.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace isthmus::coll {
namespace {

Result<> check_send(int error) {
  if (error == 0) [[likely]]
    return {};
  return fail(static_cast<ErrorClass>(error), "a message to another rank could not be sent");
}

Result<> check_receive(std::uint64_t expected, const Status& status) {
  if (status.error == 0 && status.bytes == expected) [[likely]]
    return {};
  const auto error_class = status.error != 0 ? static_cast<ErrorClass>(status.error) : ErrorClass::other;
  if (error_class != ErrorClass::truncate && error_class != ErrorClass::other)
    return fail(error_class,
                status.source < 0  // it was never there
                    ? "the message of another rank did not arrive"
                    : "the message of rank " + std::to_string(status.source) + " did not arrive");
  return fail(error_class, "rank " + std::to_string(status.source) + " sent " + std::to_string(status.bytes) +
                               " bytes where " + std::to_string(expected) +
                               " were expected: counts or datatypes do not match between ranks");
}

}  // namespace

Target Ranks::target(int rank) const noexcept {
  if (!own_group_) [[likely]]
    return comm_->collective_target(source(rank), lane_.tag);
  return {comm_->group()->process(static_cast<std::uint32_t>(rank)), comm_->context_id() + 1, comm_->rank(),
          lane_.tag};
}

Request* Ranks::start_send(int to, const Payload& payload) const {
  return comm_->engine().start_send(target(to), payload);
}

Request* Ranks::start_receive(int from, const Payload& payload) const {
  return comm_->engine().start_receive(comm_->collective_context(), source(from), lane_.tag, payload);
}

bool Ranks::Exchange::begin() {
  if (ranks_.driver()) {
    if (from_ != nobody) receive_ = ranks_.start_receive(from_, in_);
    try {
      if (to_ != nobody) send_ = ranks_.start_send(to_, out_);
    } catch (...) {
      if (receive_) ranks_.comm().engine().withdraw(std::exchange(receive_, nullptr));
      throw;
    }
    return is_complete();
  }
  Engine& engine = ranks_.comm().engine();
  MatchContext& context = ranks_.comm().collective_context();
  const int tag = ranks_.lane_.tag;
  if (from_ == nobody) {
    result_ = check_send(engine.send(ranks_.target(to_), out_));
    return true;
  }
  const int source = ranks_.source(from_);
  result_ = check_receive(
      in_.bytes, to_ == nobody ? engine.receive(context, source, tag, in_)
                               : engine.send_receive(ranks_.target(to_), out_, context, source, tag, in_));
  return true;
}

Result<> Ranks::Exchange::end() {
  Engine& engine = ranks_.comm().engine();
  if (receive_) {
    result_ = check_receive(in_.bytes, receive_->status);
    engine.free(std::exchange(receive_, nullptr));
  }
  if (send_) {
    if (result_) result_ = check_send(send_->error());
    engine.free(std::exchange(send_, nullptr));
  }
  return std::move(result_);
}

void Batch::make_room() {
  if (pending_.size() == pending_.capacity()) pending_.reserve(2 * pending_.size() + 8);
}

void Batch::withdraw() {
  Engine& engine = ranks_.comm().engine();
  for (const Pending& pending : pending_)
    engine.withdraw(pending.request);
  pending_.clear();
}

void Batch::send(int to, const Payload& payload) try {
  make_room();
  if (Request* request = ranks_.start_send(to, payload)) pending_.push_back({request, 0, false});
} catch (...) {
  withdraw();
  throw;
}

void Batch::receive(int from, const Payload& payload) try {
  make_room();
  pending_.push_back({ranks_.start_receive(from, payload), payload.bytes, true});
} catch (...) {
  withdraw();
  throw;
}

bool Batch::is_complete() const noexcept {
  return std::ranges::all_of(pending_, [](const Pending& pending) { return pending.request->complete; });
}

Result<> Batch::wait() {
  Engine& engine = ranks_.comm().engine();
  Result<> result;
  for (const Pending& pending : pending_) {
    engine.wait(*pending.request);
    if (result)
      result = pending.receive ? check_receive(pending.expected, pending.request->status)
                               : check_send(pending.request->error());
    engine.free(pending.request);
  }
  pending_.clear();
  return result;
}

}  // namespace isthmus::coll
