// Offers of GPU memory, as any process may get them: one that does not use CUDA has them copied to the host.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "base/log.hpp"
#include "p2p/engine.hpp"

namespace isthmus {

void Engine::receive_gpu_offer(Peer& peer, const wire::CellHeader& header, const wire::GpuOffer& offer,
                               const std::byte* bytes) {
  wire::GpuExport from;
  std::memcpy(&from, bytes, sizeof from);
  MatchContext& context = matcher_.context(header.context);
  if (!context.is_source(header.source)) return malformed(peer, "source beyond its group");
  if (offer.bytes == 0 || offer.bytes > PTRDIFF_MAX || from.memory.bytes != offer.bytes)
    return malformed(peer, "offer of GPU memory that is not as long as it says");
  if (Request* receive = context.match(header.source, header.tag))
    return begin_gpu_offer(peer, *receive, header.source, header.tag, offer, from);
  UnexpectedMessage& message = keep_offer(peer, context, header.source, header.tag, offer.bytes,
                                          UnexpectedMessage::Content::gpu_offer);
  message.offer.sender = offer.sender;
  message.large = std::make_unique_for_overwrite<std::byte[]>(sizeof from);
  std::memcpy(message.large.get(), &from, sizeof from);
}

void Engine::begin_gpu_offer(Peer& peer, Request& receive, int source, int tag, const wire::GpuOffer& offer,
                             const wire::GpuExport& from) {
  receive.assign(&peer, source, tag, offer.bytes);
  if (receive.limit == 0) {
    send_control(peer, wire::CellKind::share_done, &offer.sender, sizeof offer.sender);
    return finish(receive);
  }
  if (GpuMessages* gpu = this->gpu()) {
    const Result<> started = gpu->copy_from_peer(peer, receive, offer, from);
    if (started) return;
    note_gpu_reason(peer, started.error(), true);
  } else {
    note_gpu_reason(peer, Error(ErrorClass::other, "this process does not use CUDA"), false);
  }
  receive.transfer = Request::Transfer::staged;
  const wire::StageRequest wanted{.sender = offer.sender, .receiver = receive.cookie()};
  send_control(peer, wire::CellKind::gpu_stage, &wanted, sizeof wanted);
}

void Engine::receive_staged(Peer& peer, const wire::StagedOffer& offer) {
  Request* receive = requests_.find(offer.receiver);
  if (!receive || receive->kind != Request::Kind::receive || receive->peer != &peer || receive->complete ||
      receive->transfer != Request::Transfer::staged)
    return malformed(peer, "GPU memory on its host that no receive waits for");
  receive->transfer = Request::Transfer::none;
  if (offer.bytes < receive->limit) {
    if (settings_.warn)
      warn("rank " + std::to_string(peer.id) + " could not copy a message out of its GPU's memory");
    receive->status.bytes = 0;
    receive->status.error = static_cast<int>(ErrorClass::other);
    return finish(*receive);
  }
  peer.traffic.add_received(Protocol::gpu_staged, receive->limit);
  begin_rendezvous(peer, *receive, receive->status.source, receive->status.tag,
                   {.sender = offer.sender, .bytes = offer.bytes, .address = offer.address});
}

void Engine::note_gpu_reason(Peer& peer, const Error& why, bool is_setback) const {
  if (!peer.gpu_reason.empty()) return;
  peer.gpu_reason = why.text();
  if (is_setback && settings_.warn)
    warn("rank " + std::to_string(rank_) + ": messages in GPU memory from or to rank " +
         std::to_string(peer.id) + " go by way of the host's memory: " + why.text());
}

}  // namespace isthmus
