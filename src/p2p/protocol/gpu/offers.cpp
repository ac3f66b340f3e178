#include "p2p/protocol/gpu/offers.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "base/log.hpp"

namespace isthmus {
namespace {

Probed ask_of_managed(const PairFacts& facts) noexcept {
  if (!facts.is_neighbour()) return std::unexpected(no_neighbour);
  if (!facts.is_managed()) return std::unexpected("the sender's memory is not managed");
  return Serves{};
}

}  // namespace

constinit const Probe GpuOffers::probe_of_managed{Protocol::gpu_staged, ChannelId::shm, Cost::two_copies,
                                                  &ask_of_managed};

GpuOffers::GpuOffers(Links& links, Completion& completion, Matcher& matcher, UnexpectedMessages& unexpected,
                     GpuAccess& gpu, PollList& polled, CellHandlers& handlers)
    : links_(links),
      completion_(completion),
      matcher_(matcher),
      unexpected_(unexpected),
      gpu_(gpu),
      polled_(polled) {
  links.probes().add(probe_of_managed);
  using Kind = wire::CellKind;
  handlers.add<&GpuOffers::offered>(Kind::gpu_offer, *this);
  handlers.add<&GpuOffers::asked_to_push>(Kind::gpu_target, *this);
  handlers.add<&GpuOffers::ended>(Kind::gpu_end, *this);
  handlers.add<&GpuOffers::freed>(Kind::gpu_freed, *this);
  handlers.add<&GpuOffers::asked_to_stage>(Kind::stage, *this);
  handlers.add<&GpuOffers::staged>(Kind::staged, *this);
  handlers.add<&GpuOffers::asked_to_loop>(Kind::gpu_loop, *this);
  handlers.add<&GpuOffers::has_window>(Kind::gpu_window, *this);
}

/// Null, which is reported, where this process has not used a GPU: then no peer can mean one of its.
GpuMessages* GpuOffers::used_gpu(Peer& peer) {
  GpuMessages* const gpu = gpu_.made();
  if (!gpu) links_.malformed(peer, "no GPU is used");
  return gpu;
}

void GpuOffers::asked_to_push(const ArrivedCell& cell) {
  if (GpuMessages* const gpu = used_gpu(cell.peer))
    gpu->push(cell.peer, static_cast<std::uint32_t>(cell.header.tag), cell.payload<wire::GpuTarget>(),
              cell.header.size != 0 ? cell.piece : nullptr);
}

void GpuOffers::freed(const ArrivedCell& cell) {
  if (GpuMessages* const gpu = gpu_.made()) gpu->exports().forget(cell.peer, cell.payload<wire::GpuFreed>());
}

void GpuOffers::asked_to_stage(const ArrivedCell& cell) {
  staging().start(cell.peer, cell.payload<wire::StageRequest>());
}

void GpuOffers::staged(const ArrivedCell& cell) {
  staging().begin(cell.peer, static_cast<std::uint32_t>(cell.header.tag), cell.payload<wire::StageStart>());
}

void GpuOffers::asked_to_loop(const ArrivedCell& cell) {
  if (GpuMessages* const gpu = used_gpu(cell.peer)) gpu->loop(cell.peer, cell.payload<wire::LoopRequest>());
}

void GpuOffers::has_window(const ArrivedCell& cell) {
  if (used_gpu(cell.peer))
    staging().resolve_window(cell.peer, static_cast<std::uint32_t>(cell.header.tag),
                             cell.payload<wire::GpuWindow>(), wire::copy_out<wire::GpuExport>(cell.piece));
}

void GpuOffers::offered(const ArrivedCell& cell) {
  Peer& peer = cell.peer;
  const wire::CellHeader& header = cell.header;
  const std::byte* const bytes = header.size != 0 ? cell.piece : nullptr;
  const auto offer = cell.payload<wire::GpuOffer>();
  MatchContext& context = matcher_.context(header.context);
  if (!context.is_source(header.source) && !unexpected_.may_be_early(peer, context, header.source)) return;
  if (offer.bytes == 0 || offer.bytes > PTRDIFF_MAX)
    return links_.malformed(peer, "offer of no or too much GPU memory");
  GpuSource from;
  from.latency_bound = offer.latency_bound;
  from.has_failed = offer.number == wire::failed_send;
  const bool is_told = wire::has_export(header.size);
  if (wire::has_shape(header.size)) {
    std::memcpy(&from.shape, bytes + (is_told ? sizeof from.memory : 0), sizeof from.shape);
    if (!wire::span_of(from.shape, offer.bytes)) return links_.malformed(peer, "a shape that no message has");
  }
  if (GpuMessages* gpu = gpu_.get()) {
    from.memory =
        gpu->exports().resolve(peer, offer.number, is_told ? bytes : nullptr, offer.offset, offer.bytes);
  } else if (is_told) {
    const auto told = wire::copy_out<wire::GpuExport>(bytes);
    // It is not waited for: what comes later makes room when the next is looked for.
    if (told.ticket != 0 && links_.job().box) [[maybe_unused]]
      const UniqueFd unused = links_.job().box->take_now(told.left());
  }
  // A send that has failed is over at its sender, which may have another under that name.
  const auto matched =
      from.has_failed ? std::optional(matcher_.match(context, header.source, header.tag))
                      : unexpected_.match_claimed(peer, context, header.source, header.tag, offer.sender);
  if (!matched) return;
  if (*matched) return begin(peer, **matched, header.source, header.tag, offer, from);
  constexpr auto content = UnexpectedMessage::Content::gpu_offer;
  const UnexpectedMessages::Envelope envelope{header.context, header.source, header.tag, offer.bytes};
  const bool is_awaited = !from.has_failed;
  const UnexpectedMessages::Awaited awaited{
      .content = content, .sender = offer.sender, .is_awaited = is_awaited, .is_claimable = is_awaited};
  if (unexpected_.refuse(peer, context, envelope, awaited)) return;
  unexpected_.keep_offer(peer, context, envelope, awaited, std::make_unique<GpuSource>(from));
}

void GpuOffers::begin(Peer& peer, Request& receive, int source, int tag, const wire::GpuOffer& offer,
                      const GpuSource& from) {
  if (peer.lost) return completion_.end_lost(receive, source, tag);
  receive.assign(&peer, source, tag, offer.bytes);
  completion_.carry(receive);
  if (from.has_failed) {
    warn_of(peer, "could not read a message that it was to send");
    if (receive.gpu) receive.gpu->landed = true;
    receive.status.bytes = 0;
    receive.status.error = static_cast<int>(ErrorClass::other);
    return completion_.finish(receive);
  }
  if (receive.limit == 0) {
    links_.send_control(peer, wire::CellKind::share_done, &offer.sender, sizeof offer.sender);
    return completion_.finish(receive);
  }
  fetch(peer, receive, offer, from);
}

void GpuOffers::warn_of(Peer& peer, const char* what) const noexcept {
  if (std::exchange(peer.gpu_failed, true) || !links_.settings().warn) return;
  std::array<char, 120> line;
  std::snprintf(line.data(), line.size(), "rank %u %s", peer.id, what);
  warn(line.data());
}

void GpuOffers::fetch(Peer& peer, Request& receive, const wire::GpuOffer& offer, const GpuSource& from) {
  try {
    try_fetch(peer, receive, offer, from);
  } catch (const std::bad_alloc&) {
    if (gpu_.made()) gpu_.made()->lives().given_up(receive.gpu_mark);
    completion_.end_without_memory(peer, receive, offer.sender);
  }
}

void GpuOffers::try_fetch(Peer& peer, Request& receive, const wire::GpuOffer& offer, const GpuSource& from) {
  GpuMessages* const gpu = gpu_.get();
  if (!gpu) {
    links_.note_gpu_reason(peer, Error(ErrorClass::other, "this process does not use CUDA"), false);
    return staging().request(peer, receive, offer.sender, {Protocol::gpu_staged, true});
  }
  const std::optional<StagedWay> left = gpu->begin(peer, receive, offer, from);
  if (left)
    stage(peer, receive, offer.sender, *left,
          left->why && !gpu->exports().of(peer).is_unreachable(from.memory.memory.allocation));
}

void GpuOffers::stage(Peer& peer, Request& receive, wire::Cookie sender, const StagedWay& left,
                      bool lacks_memory) {
  // Where a window may serve, it is no reason for a way through the host yet.
  if (left.why && left.way == Protocol::gpu_staged) links_.note_gpu_reason(peer, *left.why, true);
  staging().request(peer, receive, sender,
                    {.way = left.way, .lacks_memory = lacks_memory, .chunks = left.chunks});
}

void GpuOffers::stage_managed(Peer& peer, Request& receive, wire::Cookie sender) {
  try {
    staging().request(peer, receive, sender, {.way = Protocol::gpu_staged, .lacks_memory = false});
  } catch (const std::bad_alloc&) {
    completion_.end_without_memory(peer, receive, sender);
  }
}

bool GpuOffers::begin_to_gpu(Peer& peer, Request& receive, const wire::SendOffer& offer) {
  const bool is_pinned = offer.memory == wire::SendMemory::pinned;
  GpuMessages& gpu = *gpu_.made();
  const GpuPlanKey key = gpu.plans().key_from_host(peer, receive, is_pinned);
  GpuPlanned& planned = gpu.plans().planned(peer, key);  // nothing below asks for another
  receive.gpu->source.is_on_host = is_pinned;
  const auto try_way = [&](Protocol way, wire::StageChunks chunks) {
    if (way == Protocol::gpu_push) return gpu.ask_to_push(peer, receive, offer.sender);
    if (way != Protocol::gpu_bounce && way != Protocol::gpu_staged) return false;
    staging().request(peer, receive, offer.sender, {.way = way, .lacks_memory = false, .chunks = chunks});
    return true;
  };
  if (const std::optional<GpuWay> chosen = gpu.choose(receive, key, planned)) {
    if (try_way(protocol_of(*chosen), chunks_of(*chosen))) return true;
    gpu.lives().given_up(receive.gpu_mark);
  }
  for (const Way& way : planned.plan.serving(receive.limit))
    if (try_way(way.protocol, wire::StageChunks::usual)) return true;
  return false;
}

void GpuOffers::ended(const ArrivedCell& cell) {
  Peer& peer = cell.peer;
  const auto end = cell.payload<wire::GpuEnd>();
  Request* receive = completion_.find(end.receiver);
  const bool is_staged = receive && receive->transfer == Request::Transfer::staged;
  const bool is_looped = receive && receive->transfer == Request::Transfer::network;
  if (!receive || receive->kind != Request::Kind::receive || receive->peer != &peer || receive->complete ||
      (receive->transfer != Request::Transfer::push && !is_staged && !is_looped) ||
      (is_looped && end.outcome != wire::GpuOutcome::refused))
    return links_.malformed(peer, "end of a copy that no receive waits for");
  links_.prepare_answer(peer);
  if (!is_staged && !is_looped) gpu_.made()->exports().of(peer).answered();
  switch (end.outcome) {
    case wire::GpuOutcome::landed:
      if (is_staged) return links_.malformed(peer, "end of a copy that has another way");
      receive->gpu->landed = true;
      gpu_.made()->lives().ended(receive->gpu_mark, receive->limit);
      count_received(peer, *receive, Protocol::gpu_push, receive->limit);
      return completion_.finish(*receive);
    case wire::GpuOutcome::failed:
      warn_of(peer, "could not copy a message from or to GPU memory");
      if (is_staged) return staging().abandon(peer, *receive);
      gpu_.made()->lives().given_up(receive->gpu_mark);
      receive->gpu->landed = true;
      receive->status.bytes = 0;
      receive->status.error = static_cast<int>(ErrorClass::other);
      return completion_.finish(*receive);
    case wire::GpuOutcome::refused:
    case wire::GpuOutcome::lacking:
    case wire::GpuOutcome::hindered:
      if (is_staged) return links_.malformed(peer, "end of a copy that has another way");
      try {
        return fetch_without_push(peer, *receive, end.outcome);
      } catch (const std::bad_alloc&) {
        return completion_.end_without_memory(peer, *receive, receive->peer_cookie);
      }
  }
  links_.malformed(peer, "end of a copy that is no end");
}

void GpuOffers::fetch_without_push(Peer& peer, Request& receive, wire::GpuOutcome why) {
  const bool is_looped =
      std::exchange(receive.transfer, Request::Transfer::none) == Request::Transfer::network;
  GpuMessages& gpu = *gpu_.made();
  const std::optional<StagedWay> left =
      is_looped ? gpu.begin_rest(peer, receive, false) : gpu.begin_without_push(peer, receive, why);
  if (left) stage(peer, receive, receive.peer_cookie, *left, false);
}

Staging& GpuOffers::staging() {
  if (!staging_) {
    staging_ = std::make_unique<Staging>(links_, completion_, gpu_);
    polled_.add(*staging_);
  }
  return *staging_;
}

}  // namespace isthmus
