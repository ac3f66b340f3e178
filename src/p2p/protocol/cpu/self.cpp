#include "p2p/protocol/cpu/self.hpp"

#include <algorithm>
#include <cstring>

#include "datatype/cursor.hpp"
#include "p2p/active/cpu_destination.hpp"
#include "p2p/message/pack.hpp"

namespace isthmus {
namespace {

Probed ask_of_self(const PairFacts& facts) noexcept {
  if (!facts.same_process) return std::unexpected("the peer is another rank");
  return Serves{};
}

std::uint64_t copy_payload(const Payload& from, const Payload& to) {
  if (!from.type && !to.type) {
    const std::uint64_t bytes = std::min(from.bytes, to.bytes);
    if (bytes != 0) std::memmove(to.data, from.data, bytes);
    return bytes;
  }
  if (!from.type) return fill(to, from.data, from.bytes);
  if (!to.type) {
    Cursor cursor(*from.type, from.data, from.count);
    return cursor.pack({to.data, to.bytes});
  }
  return copy(*from.type, from.data, from.count, *to.type, to.data, to.count);
}

/// A message from this process to itself has been matched.
void take_from_self(Completion& completion, Request& receive, int source, int tag, const Payload& payload) {
  completion.carry(receive);
  receive.way = Protocol::local;
  receive.matched = true;
  receive.status = {.source = source, .tag = tag, .bytes = 0};
  const Payload* const landing = cpu_destination_of(receive);
  if (!landing) return;
  receive.status.bytes = copy_payload(payload, *landing);
  if (payload.bytes > receive.payload.bytes) receive.status.error = static_cast<int>(ErrorClass::truncate);
}

}  // namespace

constinit const Probe SelfMessages::probe{Protocol::local, ChannelId::self, Cost::in_envelope, &ask_of_self};

Request* SelfMessages::send(const Target& target, const Payload& payload, SendMode mode) {
  MatchContext& context = matcher_.context(target.context);
  Peer& self = links_.peer(links_.rank());
  self.traffic.add_sent(Protocol::local, payload.bytes);
  if (Request* receive = matcher_.match(context, target.source, target.tag)) {
    take_from_self(completion_, *receive, target.source, target.tag, payload);
    completion_.finish(*receive);
    return nullptr;
  }
  const bool is_eager = payload.bytes <= self.eager_limit && mode == SendMode::standard;
  UnexpectedMessage* message =
      unexpected_.make(self, target.source, target.tag, is_eager ? payload.bytes : 0);
  message->cost = 0;  // no peer's
  Request* send = nullptr;
  if (is_eager) {
    pack_into(payload, message->data);
  } else {
    try {
      send = completion_.make_send(target, payload, mode);
    } catch (...) {
      matcher_.give_back(message);
      throw;
    }
    send->peer = message->peer;
    message->bytes = payload.bytes;
    message->where = send;
  }
  matcher_.keep(context, target.context, message);
  return send;
}

void SelfMessages::deliver(Request& receive, UnexpectedMessage& message) {
  Request& send = *std::get<Request*>(message.where);
  take_from_self(completion_, receive, message.source, message.tag, send.payload);
  completion_.finish(send);
  completion_.finish(receive);
}

bool SelfMessages::take_back(Request& send) {
  MatchContext& context = matcher_.context(send.context_id);
  for (UnexpectedMessage* message = context.first_unexpected(); message; message = message->by_arrival.next) {
    Request* const* const local = std::get_if<Request*>(&message->where);
    if (!local || *local != &send) continue;
    context.remove(message);
    unexpected_.discard(message);
    return true;
  }
  return false;
}

}  // namespace isthmus
