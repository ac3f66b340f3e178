// What peers say of messages in GPU memory, as any process may hear it: one that does not use CUDA gets them
// through memory of the host.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "p2p/engine.hpp"

namespace isthmus {
namespace {

template <class T>
T read_payload(const wire::Cell& cell) {
  return wire::copy_out<T>(cell.payload.data());
}

}  // namespace

void Engine::receive_gpu_control(Peer& peer, const wire::CellHeader& header, const wire::Cell& cell,
                                 const std::byte* bytes) {
  using Kind = wire::CellKind;
  const std::byte* const piece = header.size != 0 ? bytes : nullptr;
  switch (header.kind) {
    case Kind::gpu_offer:
      return receive_gpu_offer(peer, header, read_payload<wire::GpuOffer>(cell), piece);
    case Kind::gpu_target:
      return gpu_ ? gpu_->push(peer, static_cast<std::uint32_t>(header.tag),
                               read_payload<wire::GpuTarget>(cell), piece)
                  : malformed(peer, "no GPU is used");
    case Kind::gpu_end:
      return receive_gpu_end(peer, read_payload<wire::GpuEnd>(cell));
    case Kind::gpu_freed:
      if (gpu_) gpu_->forget(peer, read_payload<wire::GpuFreed>(cell));
      return;
    case Kind::stage:
      return staging().start(peer, read_payload<wire::StageRequest>(cell));
    case Kind::gpu_loop:
      return gpu_ ? gpu_->loop(peer, read_payload<wire::LoopRequest>(cell))
                  : malformed(peer, "no GPU is used");
    case Kind::staged:
      return staging().begin(peer, read_payload<wire::StageStart>(cell));
    default:
      return;
  }
}

void Engine::receive_gpu_offer(Peer& peer, const wire::CellHeader& header, const wire::GpuOffer& offer,
                               const std::byte* bytes) {
  MatchContext& context = matcher_.context(header.context);
  if (!context.is_source(header.source)) return malformed(peer, "source beyond its group");
  if (offer.bytes == 0 || offer.bytes > PTRDIFF_MAX)
    return malformed(peer, "offer of no or too much GPU memory");
  GpuSource from;
  const bool is_told = wire::has_export(header.size);
  if (wire::has_shape(header.size)) {
    std::memcpy(&from.shape, bytes + (is_told ? sizeof from.memory : 0), sizeof from.shape);
    if (!wire::span_of(from.shape, offer.bytes)) return malformed(peer, "a shape that no message has");
  }
  if (GpuMessages* gpu = this->gpu()) {
    from.memory = gpu->hear(peer, offer.number, is_told ? bytes : nullptr, offer.offset, offer.bytes);
  } else if (is_told) {
    const auto told = wire::copy_out<wire::GpuExport>(bytes);
    if (told.ticket != 0 && job_.box) [[maybe_unused]]
      const UniqueFd unused = job_.box->take(told.left());
  }
  if (Request* receive = context.match(header.source, header.tag))
    return begin_gpu_offer(peer, *receive, header.source, header.tag, offer, from);
  UnexpectedMessage& message = keep_offer(peer, context, header.source, header.tag, offer.bytes,
                                          UnexpectedMessage::Content::gpu_offer);
  message.offer.sender = offer.sender;
  message.offer.by_gpu = offer.latency_bound;
  message.large = std::make_unique_for_overwrite<std::byte[]>(sizeof from);
  std::memcpy(message.large.get(), &from, sizeof from);
}

void Engine::begin_gpu_offer(Peer& peer, Request& receive, int source, int tag, const wire::GpuOffer& offer,
                             const GpuSource& from) {
  receive.assign(&peer, source, tag, offer.bytes);
  if (receive.limit == 0) {
    send_control(peer, wire::CellKind::share_done, &offer.sender, sizeof offer.sender);
    return finish(receive);
  }
  GpuMessages* const gpu = this->gpu();
  bool lacks_memory = true;
  if (gpu) {
    const Result<bool> begun = gpu->begin(peer, receive, offer, from);
    if (begun && *begun) return;
    if (!begun) note_gpu_reason(peer, begun.error(), true);
    lacks_memory = !begun && !gpu->cannot_reach(peer, from.memory);
  } else {
    note_gpu_reason(peer, Error(ErrorClass::other, "this process does not use CUDA"), false);
  }
  staging().request(peer, receive, offer.sender, lacks_memory);
}

bool Engine::begin_to_gpu(Peer& peer, Request& receive, const wire::SendOffer& offer) {
  if (gpu_->way_from_host(peer, receive, offer.by_gpu != 0) == Protocol::gpu_push &&
      gpu_->ask_to_push(peer, receive, offer.sender))
    return true;
  // A layout with gaps is unpacked from its stand-in.
  if (!receive.gpu->is_one_copy()) return false;
  staging().request(peer, receive, offer.sender, false);
  return true;
}

void Engine::receive_gpu_end(Peer& peer, const wire::GpuEnd& end) {
  Request* receive = requests_.find(end.receiver);
  const bool is_staged = receive && receive->transfer == Request::Transfer::staged;
  const bool is_looped = receive && receive->transfer == Request::Transfer::network;
  if (!receive || receive->kind != Request::Kind::receive || receive->peer != &peer || receive->complete ||
      (receive->transfer != Request::Transfer::push && !is_staged && !is_looped) ||
      (is_looped && end.outcome != wire::GpuOutcome::refused))
    return malformed(peer, "end of a copy that no receive waits for");
  if (!is_staged && !is_looped) gpu_->answered(peer);
  switch (end.outcome) {
    case wire::GpuOutcome::landed:
      if (is_staged) return malformed(peer, "end of a copy that has another way");
      receive->gpu->landed = true;
      peer.traffic.add_received(Protocol::gpu_push, receive->limit);
      return finish(*receive);
    case wire::GpuOutcome::failed:
      if (!std::exchange(peer.gpu_failed, true) && settings_.warn)
        warn("rank " + std::to_string(peer.id) + " could not copy a message from or to GPU memory");
      if (is_staged) return staging().abandon(peer, *receive);
      receive->gpu->landed = true;
      receive->status.bytes = 0;
      receive->status.error = static_cast<int>(ErrorClass::other);
      return finish(*receive);
    case wire::GpuOutcome::refused:
    case wire::GpuOutcome::lacking:
    case wire::GpuOutcome::hindered: {
      if (is_staged) return malformed(peer, "end of a copy that has another way");
      receive->transfer = Request::Transfer::none;
      if (is_looped) return staging().request(peer, *receive, receive->remote, false);
      const Result<bool> begun = gpu_->begin_without_push(peer, *receive, end.outcome);
      if (begun && *begun) return;
      if (!begun) note_gpu_reason(peer, begun.error(), true);
      return staging().request(peer, *receive, receive->remote, false);
    }
  }
  malformed(peer, "end of a copy that is no end");
}

Staging& Engine::staging() {
  if (!staging_) staging_ = std::make_unique<Staging>(*this);
  return *staging_;
}

void Engine::note_gpu_reason(Peer& peer, const Error& why, bool is_setback) const {
  // What the next message comes with is no reason.
  if (!peer.gpu_reason.empty() || why.error_class() == ErrorClass::pending) return;
  peer.gpu_reason = why.text();
  if (is_setback && settings_.warn)
    warn("rank " + std::to_string(rank_) + ": messages in GPU memory from or to rank " +
         std::to_string(peer.id) + " go by way of the host's memory: " + why.text());
}

}  // namespace isthmus
