#include "coll/ranks.hpp"

#include <algorithm>
#include <string>

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
    return fail(error_class, "the message of rank " + std::to_string(status.source) + " did not arrive");
  return fail(error_class, "rank " + std::to_string(status.source) + " sent " + std::to_string(status.bytes) +
                               " bytes where " + std::to_string(expected) +
                               " were expected: counts or datatypes do not match between ranks");
}

}  // namespace

Target Ranks::target(int rank) const noexcept {
  if (!own_group_) [[likely]]
    return comm_.collective_target(source(rank), tag_);
  return {comm_.group()->process(static_cast<std::uint32_t>(rank)), comm_.context_id() + 1, comm_.rank(),
          tag_};
}

Result<> Ranks::send(int to, const Payload& payload) const {
  return check_send(comm_.engine().send(target(to), payload));
}

Result<> Ranks::receive(int from, const Payload& payload) const {
  return check_receive(payload.bytes,
                       comm_.engine().receive(comm_.collective_context(), source(from), tag_, payload));
}

Result<> Ranks::exchange(int to, const Payload& out, int from, const Payload& in) const {
  return check_receive(in.bytes, comm_.engine().send_receive(target(to), out, comm_.collective_context(),
                                                             source(from), tag_, in));
}

void Batch::send(int to, const Payload& payload) {
  if (Request* request = ranks_.comm_.engine().start_send(ranks_.target(to), payload))
    pending_.push_back({request, 0, false});
}

void Batch::receive(int from, const Payload& payload) {
  Request* request = ranks_.comm_.engine().start_receive(ranks_.comm_.collective_context(),
                                                         ranks_.source(from), ranks_.tag_, payload);
  pending_.push_back({request, payload.bytes, true});
}

bool Batch::is_complete() const {
  return std::ranges::all_of(pending_, [](const Pending& pending) { return pending.request->complete; });
}

Result<> Batch::wait() {
  Engine& engine = ranks_.comm_.engine();
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
