// Processes that leave without a meeting of all: MPI_Session_finalize, where there is no MPI_Finalize.
// Messages of a process come in order, so who hears that it leaves has all that it has sent.
#include <algorithm>

#include "p2p/protocol/network/header.hpp"
#include "p2p/protocol/network/peers.hpp"

namespace isthmus {

void NetworkPeers::leave() {
  for (PeerId id = 0; id < links_.size(); ++id) {
    Peer* const peer = links_.find(id);
    if (!peer || peer->lost || (!peer->connected && heard_[id] == Heard::nothing)) continue;
    if (!network_.connect(*peer)) continue;
    // First, because the answer may come from inside of `send`. Who has left itself need not answer.
    if (heard_[id] != Heard::that_it_leaves) unanswered_.push_back(id);
    const wire::NetworkHeader header = network_header(wire::NetworkKind::leaving, {id, 0, 0, 0}, 0, 0);
    if (!network_.send(id, header, {}, 0)) std::erase(unanswered_, id);
  }
}

void NetworkPeers::leaves(Peer& peer) {
  heard_[peer.id] = Heard::that_it_leaves;
  // Who leaves, too, has said so, and that is the answer.
  if (std::erase(unanswered_, peer.id) > 0 || peer.lost || !network_.connect(peer)) return;
  const wire::NetworkHeader header = network_header(wire::NetworkKind::seen_off, {peer.id, 0, 0, 0}, 0, 0);
  // Where it does not arrive, the peer has not waited for it.
  [[maybe_unused]] const auto progress = network_.send(peer.id, header, {}, 0);
}

}  // namespace isthmus
