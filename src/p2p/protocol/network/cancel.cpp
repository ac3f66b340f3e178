// MPI_Cancel of sends to other hosts. There is no memory that both sides could race for, so the sender asks;
// the receiver answers, when it makes progress, whether it still had the message unmatched, and has forgotten
// it then.
#include <algorithm>

#include "p2p/protocol/network/header.hpp"
#include "p2p/protocol/network/peers.hpp"

namespace isthmus {

void NetworkPeers::cancel(Request& send) {
  Peer& peer = *send.peer;
  const bool is_known_there =
      std::ranges::find(sends_.unacknowledged, &send) != sends_.unacknowledged.end() ||
      (send.payload.bytes > peer.eager_limit && send.parts_left == 1);
  if (!is_known_there || peer.lost || sends_.is_asked(send)) return;
  // First, because the answer may come from inside of `send`.
  sends_.asked.push_back(&send);
  const wire::NetworkHeader header =
      network_header(wire::NetworkKind::cancel, {peer.id, 0, 0, 0}, 0, send.cookie());
  // Where it does not arrive, the loss of the peer ends the send.
  try {
    if (network_.send(peer.id, header, {}, 0)) return;
  } catch (...) {
    std::erase(sends_.asked, &send);
    throw;
  }
  std::erase(sends_.asked, &send);
}

/// A message of `peer` that no receive has matched, taken out of matching; null if none is known by that
/// name.
UnexpectedMessage* NetworkPeers::take_out(const Peer& peer, wire::Cookie sender) {
  UnexpectedMessage* found = nullptr;
  matcher_.for_each([&](MatchContext& context) {
    UnexpectedMessage* message = found ? nullptr : context.first_unexpected();
    for (; message && !found; message = message->by_arrival.next) {
      if (message->peer == &peer && message->is_awaited && message->sender == sender) found = message;
    }
    if (found && found->context == &context) context.remove(found);
  });
  return found;
}

void NetworkPeers::asked_to_cancel(Peer& peer, wire::Cookie sender) {
  UnexpectedMessage* const message = take_out(peer, sender);
  if (message) unexpected_.discard(message);
  if (!network_.connect(peer)) return;
  const wire::NetworkHeader header =
      network_header(wire::NetworkKind::cancelled, {peer.id, 0, 0, 0}, message ? 1 : 0, sender);
  // Where it does not arrive, the peer hears of the loss.
  [[maybe_unused]] const auto progress = network_.send(peer.id, header, {}, 0);
}

void NetworkPeers::answered_cancel(Peer& peer, wire::Cookie sender, bool is_cancelled) {
  Request* const send = completion_.find(sender);
  if (!send || send->peer != &peer || std::erase(sends_.asked, send) == 0)
    return links_.malformed(peer, "answer to a cancellation that nobody waits for");
  if (is_cancelled) {
    send->status.cancelled = send->cancelled = true;
    // No acknowledgement comes any more.
    if (std::erase(sends_.unacknowledged, send) != 0) --send->parts_left;
  }
  if (send->parts_left == 0) completion_.finish(*send);
}

}  // namespace isthmus
