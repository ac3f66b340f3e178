// Messages whose GPU memory the network is handed: to other hosts, and through the adapter to ranks of this
// one.
#include <new>
#include <utility>

#include "p2p/protocol/network/chunks.hpp"
#include "p2p/protocol/network/header.hpp"
#include "p2p/protocol/network/peers.hpp"

namespace isthmus {
Reach NetworkPeers::gpu_reach() const {
  if (!network_.port()) return std::unexpected(Reason{"the network is closed"});
  const std::string_view why = network_.port()->why_not_gpu();
  if (!why.empty()) return std::unexpected(Reason{std::string(why)});
  return {};
}

// --- to other hosts

Request* NetworkPeers::try_send_gpu(Peer& peer, const Target& target, std::unique_ptr<GpuPart>& part,
                                    SendMode mode) {
  if (!network_.connect(peer)) return nullptr;
  const Protocol way = gpu_.made()->plans().to_host_of(peer, *part).step(part->payload.bytes).protocol;
  if (way == Protocol::network_gpu) return send_direct(peer, target, std::move(part), mode);
  if (links_.settings().gpu_path == GpuPathSetting::network)
    if (const Reach direct = gpu_reach(); !direct)
      links_.note_gpu_reason(peer, Error(ErrorClass::other, direct.error().text), true);
  return way == Protocol::network_chunks ? chunks_->send(peer, target, std::move(part), mode) : nullptr;
}

Request* NetworkPeers::send_direct(Peer& peer, const Target& target, std::unique_ptr<GpuPart> part,
                                   SendMode mode) {
  const std::span<const std::byte> bytes{part->payload.data, part->payload.bytes};
  network_.port()->make_room();
  Request* send = completion_.make_send(target, part->payload, mode);
  send->peer = &peer;
  send->transfer = Request::Transfer::network;
  send->parts_left = 1;
  send->gpu = std::move(part);
  const auto header = network_header(wire::NetworkKind::message, target, bytes.size(), send->cookie());
  peer.traffic.add_sent(Protocol::network_gpu, bytes.size());
  const auto progress =
      network_.port()->send_from_gpu(peer.id, std::as_bytes(std::span(&header, 1)), bytes, send->cookie());
  if (progress && *progress == network::Port::Progress::pending) return send;
  if (!progress) {
    if (!peer.lost) lost(peer.id, progress.error());
    send->status.error = static_cast<int>(ErrorClass::proc_aborted);
  }
  completion_.finish(*send);
  return send;
}

bool NetworkPeers::fetch_to_gpu(Peer& peer, Request& receive, const NetworkOffer& offer) {
  const Plan plan = gpu_.made()->plans().from_host_of(peer, *receive.gpu);
  for (const Way& way : plan.serving(offer.bytes)) {
    if (way.protocol == Protocol::network_gpu && try_fetch_direct(receive, offer.id)) {
      count_received(peer, receive, way.protocol, receive.limit);
      return true;
    }
    if (way.protocol == Protocol::network_chunks || way.protocol == Protocol::network_rendezvous)
      return chunks_->try_fetch(peer, receive, offer, way.protocol);
  }
  return false;
}

bool NetworkPeers::try_fetch_direct(Request& receive, network::OfferId offer) {
  const std::span<std::byte> to{receive.gpu->payload.data, receive.limit};
  if (!network_.port()->try_fetch_to_gpu(offer, to, receive.cookie())) return false;
  receive.transfer = Request::Transfer::network;
  return true;
}

// --- through the adapter

void NetworkPeers::expect_loop(Peer& peer, Request& receive) {
  // Where that fails, the fetch reports it.
  [[maybe_unused]] const auto connected = network_.connect(peer);
  receive.transfer = Request::Transfer::network;
}

Result<> NetworkPeers::send_loop(Peer& peer, Request& send, wire::Cookie receive, std::uint64_t bytes) {
  ISTHMUS_TRY(network_.connect(peer));
  const auto header = network_header(wire::NetworkKind::loop, {peer.id, 0, 0, 0}, bytes, receive);
  auto progress = network_.port()->send_from_gpu(peer.id, std::as_bytes(std::span(&header, 1)),
                                                 {send.gpu->payload.data, bytes}, send.cookie());
  if (!progress) return std::unexpected(std::move(progress).error());
  send.transfer = Request::Transfer::network;
  send.parts_left = 1;
  peer.traffic.add_sent(Protocol::gpu_loopback, bytes);
  if (*progress == network::Port::Progress::complete) sends_.end_part(send);
  return {};
}

void NetworkPeers::loop_offered(Peer& peer, const wire::NetworkHeader& header, std::uint64_t bytes,
                                network::OfferId offer) {
  Request* receive = completion_.find(header.sender);
  if (!receive || receive->kind != Request::Kind::receive || receive->peer != &peer || receive->complete ||
      receive->transfer != Request::Transfer::network || bytes != receive->limit) {
    links_.malformed(peer, "bytes through the adapter that no receive waits for");
    return decline(peer, offer);
  }
  count_received(peer, *receive, Protocol::gpu_loopback, bytes);
  auto why = ErrorClass::other;
  try {
    if (try_fetch_direct(*receive, offer)) return;
  } catch (const std::bad_alloc&) {
    why = ErrorClass::no_mem;
  }
  receive->status.bytes = 0;
  completion_.end_in_error(*receive, why);
  decline(peer, offer);
}

}  // namespace isthmus
