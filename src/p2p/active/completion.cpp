#include "p2p/active/completion.hpp"

#include "p2p/active/message_trace.hpp"
#include "p2p/active/way_times.hpp"

namespace isthmus {

Request* Completion::make_send(const Target& target, const Payload& payload, SendMode mode) {
  Request* send = pool_.take(Request::Kind::send);
  ++pending_sends_;
  send->source = target.source;
  send->tag = target.tag;
  send->context_id = target.context;
  send->payload = payload;
  send->eagerness = Eagerness::by_limit;
  send->told = {};
  send->synchronous = mode == SendMode::synchronous;
  if (payload.type) send->type = Ref<const Datatype>::share(payload.type);
  return send;
}

Request* Completion::find_unanswered(Peer& peer, wire::Cookie cookie) {
  Request* const send = pool_.find(cookie);
  if (send && send->kind == Request::Kind::send && send->peer == &peer && !send->complete && !send->unsent &&
      send->transfer == Request::Transfer::none)
    return send;
  links_.malformed(peer, "answer to a send that is not pending");
  return nullptr;
}

void Completion::finish(Request& request) {
  if (request.gpu && !lander_->land_or_finish(request)) [[unlikely]]
    return;
  if (request.kind == Request::Kind::send) --pending_sends_;
  request.complete = true;
  if (lock_.attended()) [[unlikely]]
    return finish_attended(request);
  if (request.orphan) pool_.give_back(&request);
}

/// What else there is to do where threads wait, or somebody wants to hear of it.
void Completion::finish_attended(Request& request) {
  if (times_) times_->ends(request);
  if (trace_) trace_->completed(request);
  if (request.orphan) pool_.give_back(&request);
  wake_threads();
}

void Completion::carry_attended(Request& receive) noexcept {
  if (times_) times_->begins(receive);
  if (trace_) trace_->carries(receive);
}

void Completion::end_in_error(Request& request, ErrorClass why) {
  request.status.error = static_cast<int>(why);
  if (request.gpu) request.gpu->landed = true;  // there is nothing to copy to its place
  finish(request);
}

void Completion::end_without_memory(Peer& peer, Request& receive, wire::Cookie sender) {
  links_.send_control(peer, wire::CellKind::share_done, &sender, sizeof sender);
  receive.status.bytes = 0;
  end_in_error(receive, ErrorClass::no_mem);
}

void Completion::end_lost(Request& receive, int source, int tag) {
  receive.matched = true;
  receive.status = {.source = source, .tag = tag};
  end_in_error(receive, ErrorClass::proc_aborted);
}

}  // namespace isthmus
