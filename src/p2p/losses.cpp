// What happens when a process of the job is no more. Everything that waits, messages and collectives alike,
// waits for a request or for `wait_for`; so this is where it learns of it.
#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "p2p/engine.hpp"

namespace isthmus {
namespace {

/// Whether a request that the loss of its peer ends is left to what moves it.
bool ends_by_itself(const Request& request) {
  // A GPU of this process copies, or the network tells.
  return request.transfer == Request::Transfer::copy || request.transfer == Request::Transfer::network;
}

}  // namespace

void Engine::lose(PeerId id, const std::string& why, bool warns) {
  Peer& peer = links_.peer(id);
  if (peer.lost || id == links_.rank()) return;
  // What it has written before its end has been sent, also where it has connected since this rank looked.
  if (peer.is_local()) accept(peer);
  while (peer.in.open() && drain(peer) != 0) {
  }
  const bool has_left_some = peer.in.open() && !peer.held && peer.in.front();
  if (has_left_some && losses_.has_ended(peer.slot)) return;
  peer.lost = true;
  lost_.push_back(id);  // the constructor has reserved it
  if (links_.settings().warn && warns) {
    std::array<char, 400> line;
    std::snprintf(line.data(), line.size(), "rank %u has lost rank %u: %s", links_.rank(), id, why.c_str());
    warn(line.data());
  }
  if (network_) network_->forget(peer);
  if (peer.is_local()) end_messages(peer);
  plans_.forget();
  matcher_.for_each([&](MatchContext& context) { lose(context, id); });
  agreements_.lost(id);
  settle_losses();
}

void Engine::settle_losses() noexcept {
  polled_.remove(aftermath_);
  try {
    agreements_.go_on();
    unexpected_.decline_rejected();
  } catch (const std::bad_alloc&) {
    polled_.add(aftermath_);
  }
}

unsigned Aftermath::poll() {
  engine_.settle_losses();
  return 0;
}

/// Ends all messages to and from a process that shared the region.
void Engine::end_messages(Peer& peer) {
  std::erase(inbound_, &peer);
  links_.disconnect(peer);
  while (Request* send = peer.waiting.front())
    peer.waiting.remove(send);
  while (Request* send = peer.streaming.front())
    peer.streaming.remove(send);
  splits_.forget(peer);
  gpu_offers_.lost(peer);
  memories_.forget(peer);
  completion_.pool().for_each([&](Request& request) {
    const bool is_message = request.kind == Request::Kind::send || request.kind == Request::Kind::receive;
    if (is_message && !request.complete && request.peer == &peer && !ends_by_itself(request))
      completion_.end_in_error(request, ErrorClass::proc_aborted);
  });
  if (Request* const receive = std::exchange(peer.incoming_receive, nullptr))
    completion_.end_in_error(*receive, ErrorClass::proc_aborted);
  peer.incoming_message = nullptr;  // it stays where it is, and fails when it is received
  peer.incoming_left = 0;
}

void Engine::lose(MatchContext& context, PeerId id) {
  if (!context.has_process(id)) return;
  context.lose(
      id, [this](Request& receive) { completion_.end_in_error(receive, ErrorClass::proc_aborted); },
      [this](Request& receive) { completion_.end_in_error(receive, ErrorClass::proc_failed_pending); });
  if (context.together_below() > 0) break_off(context, context.together_below(), ErrorClass::proc_aborted);
  if (context.part()) break_off(*context.part(), ErrorClass::proc_aborted);
}

void Engine::recall_losses(MatchContext& context) {
  for (const PeerId id : lost_)
    lose(context, id);
}

void Engine::break_off(MatchContext& context, int tags, ErrorClass why) {
  for (UnexpectedMessage* each = context.first_unexpected(); each;) {
    UnexpectedMessage* const next = each->by_arrival.next;
    if (each->tag < tags) {
      if (each->peer->incoming_message == each) each->peer->incoming_message = nullptr;
      matcher_.reject(context, each);
    }
    each = next;
  }
  // Sends whose peers live end when these answer, as `decline` does: until then they may be reading. What has
  // not left goes no more.
  completion_.pool().for_each([&](Request& request) {
    if (request.kind != Request::Kind::send || request.complete || request.context_id != context.id() ||
        request.tag >= tags)
      return;
    request.status.error = static_cast<int>(why);
    if (!request.unsent) return;
    request.peer->waiting.remove(&request);
    completion_.end_in_error(request, why);
  });
}

std::span<const PeerId> Engine::break_off(ContextId id, ErrorClass why) {
  MatchContext* const messages = matcher_.find(id);
  MatchContext* const collective = matcher_.find(id + 1);
  // Whoever opens it later asks (`Agreements::opened`).
  if (!messages || !collective || collective->processes().empty()) return {};
  constexpr int all_tags = std::numeric_limits<int>::max();
  for (MatchContext* context : {messages, collective}) {
    context->break_off(why, [&](Request& receive) { completion_.end_in_error(receive, why); });
    break_off(*context, all_tags, why);
  }
  if (collective->part()) break_off(*collective->part(), why);
  return collective->processes();
}

void Engine::consume(MatchContext& context, UnexpectedMessage& message) {
  context.remove(&message);
  if (message.peer && message.peer->incoming_message == &message) message.peer->incoming_message = nullptr;
  unexpected_.release(&message);
}

}  // namespace isthmus
