// Messages between ranks of this host that go through the adapter of the network.
#include <string>
#include <utility>

#include "p2p/link/links.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus {

bool GpuMessages::ask_to_loop(Peer& peer, Request& receive, wire::Cookie sender) {
  if (!receive.gpu->suits_network()) return false;
  receive.peer_cookie = sender;
  network_->expect_loop(peer, receive);
  const wire::LoopRequest wanted{.sender = sender, .receiver = receive.cookie(), .bytes = receive.limit};
  links_.send_control(peer, wire::CellKind::gpu_loop, &wanted, sizeof wanted);
  return true;
}

void GpuMessages::loop(Peer& peer, const wire::LoopRequest& wanted) {
  Request* send = completion_.find(wanted.sender);
  if (!send || send->kind != Request::Kind::send || send->peer != &peer || send->complete || send->unsent ||
      send->transfer != Request::Transfer::none || wanted.bytes == 0 || wanted.bytes > send->payload.bytes)
    return links_.malformed(peer, "asks for a send through the adapter that is not pending");
  links_.prepare_answer(peer);
  Result<> begun = isthmus::fail(ErrorClass::other, "the sender's memory is not one run of its GPU's");
  if (const Reach direct = plans_.network_reach(peer); !direct)
    begun = isthmus::fail(ErrorClass::other, direct.error().text);
  else if (send->gpu && send->gpu->suits_network())
    begun = network_->send_loop(peer, *send, wanted.receiver, wanted.bytes);
  if (begun) return;
  links_.note_gpu_reason(peer, begun.error(), true);
  const wire::GpuEnd end{.receiver = wanted.receiver, .outcome = wire::GpuOutcome::refused, .reserved = 0};
  links_.send_control(peer, wire::CellKind::gpu_end, &end, sizeof end);
}

}  // namespace isthmus
