// Sends to peers that come to this host or leave it. What is on offer has been fetched before, and all that
// is left are synchronous messages that their receivers have, and have not matched.
#include <algorithm>

#include "p2p/protocol/network/peers.hpp"

namespace isthmus {

void NetworkPeers::take_over(Request& send) {
  if (std::ranges::find(sends_.unacknowledged, &send) != sends_.unacknowledged.end()) return;
  sends_.unacknowledged.push_back(&send);
  send.parts_left = 1;
}

void NetworkPeers::hand_over(Request& send) noexcept {
  if (std::erase(sends_.unacknowledged, &send) != 0) send.parts_left = 0;
}

}  // namespace isthmus
