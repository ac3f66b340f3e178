// Messages whose GPU memory the network is handed: to other hosts, and through the adapter to ranks of this
// one.
#include <utility>

#include "base/log.hpp"
#include "p2p/engine.hpp"
#include "p2p/gpu.hpp"
#include "p2p/network_chunks.hpp"
#include "p2p/network_header.hpp"
#include "p2p/remote.hpp"

namespace isthmus {
namespace {

/// Whether it is memory that a network can take: one run of a GPU's own, whose pages stay where they are.
bool suits_network(const GpuPart& part) {
  return part.is_one_copy() && part.buffer.is_own && part.buffer.kind != MemoryKind::managed;
}

}  // namespace

Reach Remote::gpu_reach() const {
  if (!port_) return std::unexpected(Reason{"the network is closed"});
  const std::string_view why = port_->why_not_gpu();
  if (!why.empty()) return std::unexpected(Reason{std::string(why)});
  return {};
}

// --- to other hosts

Request* Remote::try_send_gpu(Peer& peer, const Target& target, std::unique_ptr<GpuPart>& part,
                              SendMode mode) {
  if (!connect(peer)) return nullptr;
  const Reach direct = gpu_reach();
  if (direct && suits_network(*part) && part->payload.bytes > port_->eager_limit(peer.id))
    return send_direct(peer, target, std::move(part), mode);
  if (!direct && engine_.settings_.gpu_path == GpuPathSetting::network)
    engine_.note_gpu_reason(peer, Error(ErrorClass::other, direct.error().text), true);
  return chunks_->try_send(peer, target, part, mode);
}

Request* Remote::send_direct(Peer& peer, const Target& target, std::unique_ptr<GpuPart> part, SendMode mode) {
  const std::span<const std::byte> bytes{part->payload.data, part->payload.bytes};
  Request* send = engine_.make_send(target, part->payload, mode);
  send->peer = &peer;
  send->transfer = Request::Transfer::network;
  send->limit = 1;
  send->gpu = std::move(part);
  const auto header = network_header(wire::NetworkKind::message, target, bytes.size(), send->cookie());
  peer.traffic.add_sent(Protocol::network_gpu, bytes.size());
  const auto progress =
      port_->send_from_gpu(peer.id, std::as_bytes(std::span(&header, 1)), bytes, send->cookie());
  if (progress && *progress == network::Port::Progress::pending) return send;
  if (!progress) {
    if (!peer.lost) lost(peer.id, progress.error());
    send->status.error = static_cast<int>(ErrorClass::proc_aborted);
  }
  engine_.finish(*send);
  return send;
}

bool Remote::try_fetch_direct(Request& receive, network::OfferId offer) {
  if (!receive.gpu || !suits_network(*receive.gpu)) return false;
  const std::span<std::byte> to{receive.gpu->payload.data, receive.limit};
  if (!port_->try_fetch_to_gpu(offer, to, receive.cookie())) return false;
  receive.transfer = Request::Transfer::network;
  return true;
}

// --- through the adapter

void Remote::expect_loop(Peer& peer, Request& receive) {
  // Where that fails, the fetch reports it.
  [[maybe_unused]] const auto connected = connect(peer);
  receive.transfer = Request::Transfer::network;
}

Result<> Remote::send_loop(Peer& peer, Request& send, wire::Cookie receive, std::uint64_t bytes) {
  ISTHMUS_TRY(connect(peer));
  const auto header = network_header(wire::NetworkKind::loop, {peer.id, 0, 0, 0}, bytes, receive);
  auto progress = port_->send_from_gpu(peer.id, std::as_bytes(std::span(&header, 1)),
                                       {send.gpu->payload.data, bytes}, send.cookie());
  if (!progress) return std::unexpected(std::move(progress).error());
  send.transfer = Request::Transfer::network;
  send.limit = 1;
  peer.traffic.add_sent(Protocol::gpu_loopback, bytes);
  if (*progress == network::Port::Progress::complete) end_part(send);
  return {};
}

void Remote::loop_offered(Peer& peer, const wire::NetworkHeader& header, std::uint64_t bytes,
                          network::OfferId offer) {
  Request* receive = engine_.requests_.find(header.sender);
  if (!receive || receive->kind != Request::Kind::receive || receive->peer != &peer || receive->complete ||
      receive->transfer != Request::Transfer::network || bytes != receive->limit) {
    engine_.malformed(peer, "bytes through the adapter that no receive waits for");
    return decline(peer, offer);
  }
  peer.traffic.add_received(Protocol::gpu_loopback, bytes);
  if (try_fetch_direct(*receive, offer)) return;
  decline(peer, offer);
  receive->status.bytes = 0;
  receive->status.error = static_cast<int>(ErrorClass::other);
  receive->gpu->landed = true;
  engine_.finish(*receive);
}

void GpuMessages::note_missing_loopback(Peer& peer) {
  if (engine_.settings_.gpu_path != GpuPathSetting::network) return;
  if (const Reach network = network_reach(); !network)
    engine_.note_gpu_reason(peer, Error(ErrorClass::other, network.error().text), true);
}

bool GpuMessages::ask_to_loop(Peer& peer, Request& receive, wire::Cookie sender) {
  if (!suits_network(*receive.gpu)) return false;
  receive.remote = sender;
  engine_.remote_->expect_loop(peer, receive);
  const wire::LoopRequest wanted{.sender = sender, .receiver = receive.cookie(), .bytes = receive.limit};
  engine_.send_control(peer, wire::CellKind::gpu_loop, &wanted, sizeof wanted);
  return true;
}

void GpuMessages::loop(Peer& peer, const wire::LoopRequest& wanted) {
  Request* send = engine_.requests_.find(wanted.sender);
  if (!send || send->kind != Request::Kind::send || send->peer != &peer || send->complete || send->unsent ||
      send->transfer != Request::Transfer::none || wanted.bytes == 0 || wanted.bytes > send->payload.bytes)
    return engine_.malformed(peer, "asks for a send through the adapter that is not pending");
  Result<> begun = isthmus::fail(ErrorClass::other, "the sender's memory is not one run of its GPU's");
  if (const Reach direct = network_reach(); !direct)
    begun = isthmus::fail(ErrorClass::other, direct.error().text);
  else if (send->gpu && suits_network(*send->gpu))
    begun = engine_.remote_->send_loop(peer, *send, wanted.receiver, wanted.bytes);
  if (begun) return;
  engine_.note_gpu_reason(peer, begun.error(), true);
  const wire::GpuEnd end{.receiver = wanted.receiver, .outcome = wire::GpuOutcome::refused, .reserved = 0};
  engine_.send_control(peer, wire::CellKind::gpu_end, &end, sizeof end);
}

}  // namespace isthmus
