#include "p2p/losses.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "base/log.hpp"

namespace isthmus {
namespace {

/// Whether a request that the loss of its peer ends is left to what moves it.
bool ends_by_itself(const Request& request) {
  // A GPU of this process copies, or the network tells.
  return request.transfer == Request::Transfer::copy || request.transfer == Request::Transfer::network;
}

}  // namespace

void Losses::lose(PeerId id, const std::string& why, bool warns) {
  Peer& peer = around_.links.peer(id);
  if (peer.lost || id == around_.links.rank()) return;
  if (!around_.rings.read_rest(peer) && around_.watch.has_ended(peer.slot)) return;
  peer.lost = true;
  lost_.push_back(id);  // the constructor has reserved it
  if (around_.links.settings().warn && warns) {
    std::array<char, 400> line;
    std::snprintf(line.data(), line.size(), "rank %u has lost rank %u: %s", around_.links.rank(), id,
                  why.c_str());
    warn(line.data());
  }
  if (network_) network_->forget(peer);
  if (peer.is_local()) end_messages(peer);
  around_.plans.forget();
  around_.matcher.for_each([&](MatchContext& context) { lose(context, id); });
  if (listener_) listener_->lost(id);
  settle();
}

void Losses::settle() noexcept {
  around_.polled.remove(*this);
  try {
    if (listener_) listener_->settle();
    around_.unexpected.decline_rejected();
  } catch (const std::bad_alloc&) {
    around_.polled.add(*this);
  }
}

unsigned Losses::poll() {
  settle();
  return 0;
}

/// Ends all messages to and from a process that shared the region.
void Losses::end_messages(Peer& peer) {
  around_.rings.close(peer);
  around_.links.disconnect(peer);
  while (Request* send = peer.waiting.front())
    peer.waiting.remove(send);
  while (Request* send = peer.streaming.front())
    peer.streaming.remove(send);
  around_.splits.forget(peer);
  around_.gpu_offers.lost(peer);
  around_.memories.forget(peer);
  around_.completion.pool().for_each([&](Request& request) {
    const bool is_message = request.kind == Request::Kind::send || request.kind == Request::Kind::receive;
    if (is_message && !request.complete && request.peer == &peer && !ends_by_itself(request))
      around_.completion.end_in_error(request, ErrorClass::proc_aborted);
  });
  if (Request* const receive = std::exchange(peer.incoming_receive, nullptr))
    around_.completion.end_in_error(*receive, ErrorClass::proc_aborted);
  peer.incoming_message = nullptr;  // it stays where it is, and fails when it is received
  peer.incoming_left = 0;
}

void Losses::lose(MatchContext& context, PeerId id) {
  if (!context.has_process(id)) return;
  context.lose(
      id, [this](Request& receive) { around_.completion.end_in_error(receive, ErrorClass::proc_aborted); },
      [this](Request& receive) {
        around_.completion.end_in_error(receive, ErrorClass::proc_failed_pending);
      });
  if (context.together_below() > 0) break_off(context, context.together_below(), ErrorClass::proc_aborted);
  if (context.part()) break_off(*context.part(), ErrorClass::proc_aborted);
}

void Losses::recall(MatchContext& context) {
  for (const PeerId id : lost_)
    lose(context, id);
}

void Losses::break_off(MatchContext& context, int tags, ErrorClass why) {
  for (UnexpectedMessage* each = context.first_unexpected(); each;) {
    UnexpectedMessage* const next = each->by_arrival.next;
    if (each->tag < tags) {
      if (each->peer->incoming_message == each) each->peer->incoming_message = nullptr;
      around_.matcher.reject(context, each);
    }
    each = next;
  }
  // Sends whose peers live end when these answer, as `decline` does: until then they may be reading. What has
  // not left goes no more.
  around_.completion.pool().for_each([&](Request& request) {
    if (request.kind != Request::Kind::send || request.complete || request.context_id != context.id() ||
        request.tag >= tags)
      return;
    request.status.error = static_cast<int>(why);
    if (!request.unsent) return;
    request.peer->waiting.remove(&request);
    around_.completion.end_in_error(request, why);
  });
}

std::span<const PeerId> Losses::break_off(ContextId id, ErrorClass why) {
  MatchContext* const messages = around_.matcher.find(id);
  MatchContext* const collective = around_.matcher.find(id + 1);
  // Whoever opens it later asks (`Agreements::opened`).
  if (!messages || !collective || collective->processes().empty()) return {};
  constexpr int all_tags = std::numeric_limits<int>::max();
  for (MatchContext* context : {messages, collective}) {
    context->break_off(why, [&](Request& receive) { around_.completion.end_in_error(receive, why); });
    break_off(*context, all_tags, why);
  }
  if (collective->part()) break_off(*collective->part(), why);
  return collective->processes();
}

}  // namespace isthmus
