// How ranks of one host tell each other of messages in GPU memory, and whose GPU copies them.
#include <new>
#include <utility>

#include "p2p/gpu_copy/shapes.hpp"
#include "p2p/link/links.hpp"
#include "p2p/protocol/gpu/messages.hpp"
#include "route/gpu/ways.hpp"

namespace isthmus {
namespace {

/// With so many messages on their way that the sender's GPU is to copy, the receiver's copies the next ones:
/// the engines of both GPUs copy at the same time.
constexpr std::uint32_t helped_from = 3;
/// Messages that could have been so copied before the sender's memory is opened for it: 2 ms.
constexpr std::uint32_t help_opens_after = 128;

/// What a send's bytes are copied from: in GPU memory, where a kernel may have packed them.
const Payload& payload_of(const Request& send) {
  return send.gpu ? send.gpu->payload : send.payload;
}

}  // namespace

bool GpuMessages::emit(Peer& peer, Request& send, const Target& target) {
  if (!peer.out.open() || !peer.out.has_cell()) return false;
  wire::CellHeader header{.context = target.context,
                          .source = target.source,
                          .tag = target.tag,
                          .size = 0,
                          .kind = wire::CellKind::gpu_offer,
                          .flag = wire::CellFlag::none,
                          .mark = 0};
  if (send.status.error != 0) {
    const wire::GpuOffer nothing{.sender = send.cookie(),
                                 .bytes = send.payload.bytes,
                                 .offset = 0,
                                 .number = wire::failed_send,
                                 .latency_bound = 0};
    peer.out.publish(header, &nothing, sizeof nothing);
    send.unsent = false;
    completion_.finish(send);
    return true;
  }
  ExportTable::Announcement announcement = exports_.announce(peer, *send.gpu);
  const wire::GpuOffer offer{.sender = send.cookie(),
                             .bytes = send.payload.bytes,
                             .offset = send.gpu->buffer.offset(),
                             .number = announcement.number,
                             .latency_bound = peer.workload.workload() == Workload::latency ? 1U : 0U};
  return exports_.publish(peer, header, &offer, announcement, *send.gpu);
}

bool GpuMessages::ask_to_push(Peer& peer, Request& receive, wire::Cookie sender) {
  GpuPart& part = *receive.gpu;
  const bool can_export = part.is_one_copy() && part.buffer.kind != MemoryKind::managed && part.buffer.is_own;
  if (!can_export || exports_.of(peer).is_refused(part.buffer.allocation)) return false;
  if (!peer.out.open()) links_.connect(peer);
  if (!peer.out.open() || !peer.control.empty() || !peer.out.has_cell()) return false;
  ExportTable::Announcement announcement = exports_.announce(peer, part);
  if (announcement.in_full && announcement.what.memory.exporter == 0) return false;
  const wire::GpuTarget target{
      .sender = sender, .receiver = receive.cookie(), .bytes = receive.limit, .offset = part.buffer.offset()};
  if (!exports_.publish(peer,
                        {.context = 0,
                         .source = 0,
                         .tag = static_cast<std::int32_t>(announcement.number),
                         .size = 0,
                         .kind = wire::CellKind::gpu_target,
                         .flag = wire::CellFlag::none,
                         .mark = 0},
                        &target, announcement, part))
    return false;
  links_.after_publish(peer);
  receive.transfer = Request::Transfer::push;
  receive.peer_cookie = sender;
  exports_.of(peer).asked();
  return true;
}

// --- who copies

bool GpuMessages::can_help(const Peer& peer, const wire::GpuExport& from, cuda::Device local) {
  GpuExports& known = exports_.of(peer);
  const std::uint32_t asked_for = known.copies_asked_for();
  if (asked_for < helped_from || links_.settings().gpu_path != GpuPathSetting::automatic) return false;
  if (transfers_.count(GpuTransfers::Purpose::pull) >= asked_for) return false;
  if (exports_.mappings().find(from.memory, local)) return true;
  // A descriptor holds for the message that it came with.
  const bool may_open = !from.memory.has_descriptor() && !known.is_unreachable(from.memory.allocation);
  return may_open && known.missed(help_opens_after);
}

std::optional<GpuWay> GpuMessages::choose_live(Request& receive, const GpuPlanKey& key, GpuPlanned& planned) {
  if (planned.bytes != receive.limit) {
    planned.bytes = receive.limit;
    planned.ways = ways_worth_a_trial(planned.plan, key, receive.limit);
    planned.route = route_of(key, planned.ways);
  }
  if (!planned.ways.leave_a_choice()) return std::nullopt;
  return lives_.begin(receive.gpu_mark, planned.route, key.from.has_gaps || key.to.has_gaps, receive.limit,
                      planned.ways);
}

GpuMessages::Begun GpuMessages::begin_by(Protocol way, Peer& peer, Request& receive, wire::Cookie sender,
                                         const GpuSource& from, std::optional<Error>& trouble) {
  const auto begun = [](bool has) { return has ? Begun::yes : Begun::no; };
  switch (way) {
    case Protocol::gpu_loopback:
      return begun(ask_to_loop(peer, receive, sender));
    case Protocol::gpu_courier:
      return begun(begin_by_courier(peer, receive, sender, from));
    case Protocol::gpu_push:
      return begun(begin_by_push(peer, receive, sender, from));
    case Protocol::gpu_pull:
      return begun(try_pull(peer, receive, sender, from, trouble));
    case Protocol::gpu_bounce:
    case Protocol::gpu_staged:
      return Begun::by_staging;
    default:
      return Begun::no;  // it has been offered
  }
}

std::optional<StagedWay> GpuMessages::begin(Peer& peer, Request& receive, const wire::GpuOffer& offer,
                                            const GpuSource& from) {
  if (park(peer, receive, offer, from)) return std::nullopt;
  const wire::Cookie sender = offer.sender;
  if (receive.gpu) receive.gpu->source = from;
  const GpuPlanKey key = plans_.key_of(peer, receive, from);
  GpuPlanned& planned = plans_.planned(peer, key);  // nothing below asks for another
  std::optional<Error> trouble;
  const std::optional<GpuWay> chosen = choose(receive, key, planned);
  if (chosen) {
    const Begun begun = begin_by(protocol_of(*chosen), peer, receive, sender, from, trouble);
    if (begun == Begun::yes) return std::nullopt;
    if (begun == Begun::by_staging) {
      // The plan has no better one: both sides say why, as where there is no choice.
      if (*chosen == planned.ways.assumed) {
        plans_.note(peer, key);
        return StagedWay{protocol_of(*chosen), {}};
      }
      return StagedWay{protocol_of(*chosen), {}, chunks_of(*chosen)};
    }
    lives_.given_up(receive.gpu_mark);
  }
  for (const Way& way : planned.plan.serving(receive.limit)) {
    if (chosen && way.protocol == protocol_of(*chosen)) continue;
    const Begun begun = begin_by(way.protocol, peer, receive, sender, from, trouble);
    if (begun == Begun::yes) return std::nullopt;
    if (begun == Begun::no) continue;
    if (!trouble) plans_.note(peer, key);
    return StagedWay{way.protocol, std::move(trouble)};
  }
  return StagedWay{Protocol::gpu_staged, std::move(trouble)};
}

/// As `pull`; the reason, where it cannot be, goes to `trouble`.
bool GpuMessages::try_pull(Peer& peer, Request& receive, wire::Cookie sender, const GpuSource& from,
                           std::optional<Error>& trouble) {
  Result<bool> begun = pull(peer, receive, sender, from);
  if (begun) return *begun;
  trouble = std::move(begun).error();
  return false;
}

bool GpuMessages::begin_by_push(Peer& peer, Request& receive, wire::Cookie sender, const GpuSource& from) {
  if (can_help(peer, from.memory, receive.gpu->buffer.device)) {
    const Result<bool> helped = pull(peer, receive, sender, from);
    if (helped && *helped) return true;
  }
  return ask_to_push(peer, receive, sender);
}

std::optional<StagedWay> GpuMessages::begin_rest(Peer& peer, Request& receive, bool may_read) {
  lives_.given_up(receive.gpu_mark);
  const GpuSource& from = receive.gpu->source;
  const Plan planned = plans_.of(peer, plans_.key_of(peer, receive, from));
  std::optional<Error> trouble;
  for (const Way& way : planned.serving(receive.limit)) {
    const bool is_read = may_read && way.protocol == Protocol::gpu_pull;
    if (is_read && try_pull(peer, receive, receive.peer_cookie, from, trouble)) return std::nullopt;
    if (way.protocol == Protocol::gpu_bounce || way.protocol == Protocol::gpu_staged)
      return StagedWay{way.protocol, std::move(trouble)};
  }
  return StagedWay{Protocol::gpu_staged, std::move(trouble)};
}

std::optional<StagedWay> GpuMessages::begin_without_push(Peer& peer, Request& receive, wire::GpuOutcome why) {
  const GpuPart& part = *receive.gpu;
  // What the sender's GPU cannot copy, and be it because its memory is freed, this one is not to look at.
  if (why == wire::GpuOutcome::hindered) return begin_rest(peer, receive, false);
  exports_.of(peer).forget(part.buffer.allocation);
  if (why == wire::GpuOutcome::refused) {
    exports_.of(peer).refuse(part.buffer.allocation);
    exports_.of(peer).note(GpuExports::Whose::own, export_kind_of(part.buffer.kind),
                           "the peer cannot open it, and tells why");
  }
  return begin_rest(peer, receive, true);
}

Result<bool> GpuMessages::pull(Peer& peer, Request& receive, wire::Cookie sender, const GpuSource& from) {
  if (from.memory.memory.exporter == 0) return false;  // the sender knows why it cannot export it
  transfers_.reserve(1);
  const std::uint64_t bytes = receive.limit;
  Payload target = receive.payload;
  Buffer near;
  if (receive.gpu) {
    target = receive.gpu->payload;
    near = receive.gpu->buffer;
  } else {
    const auto device = gpus_.find(from.memory.memory.device);
    if (!device) return isthmus::fail(ErrorClass::other, "this process does not see the sender's GPU");
    near.device = *device;
  }
  GpuTransfers::Running running{PendingCopy(), GpuTransfers::Purpose::pull, receive.cookie(), sender, {}, {}};
  if (from.shape.level_count != 0) {
    auto reading = start_read(peer, from, near, target, bytes);
    if (!reading) return std::unexpected(std::move(reading).error());
    if (!reading->copy) return false;
    running.copy = std::move(*reading->copy);
    running.mapping = std::move(reading->mapping);
    transfers_.add(receive, std::move(running));
  } else {
    auto source = exports_.reach(peer, from.memory, near.device);
    if (!source) return std::unexpected(std::move(source).error());
    running.mapping = std::move(source->mapping);
    ISTHMUS_TRY(transfers_.start_or_hold(receive, near, Payload::of(source->address, bytes), target,
                                         std::move(running)));
  }
  count_received(peer, receive, Protocol::gpu_pull, bytes);
  return true;
}

Result<GpuMessages::Reading> GpuMessages::start_read(Peer& peer, const GpuSource& from, const Buffer& near,
                                                     const Payload& to, std::uint64_t bytes) {
  ISTHMUS_TRY(copies_.check_still_there(near));
  CopyEngine& engine = copies_.engine_on(near.device);
  if (!copies_.layouts().can_move(engine, to)) return Reading{};
  wire::GpuExport what = from.memory;
  const auto span = wire::span_of(from.shape, what.memory.bytes);
  if (!span || static_cast<std::int64_t>(what.memory.offset) < -span->begin)
    return isthmus::fail(ErrorClass::intern, "the peer names more than its allocation has");
  what.memory.offset += static_cast<std::uint64_t>(span->begin);
  what.memory.bytes = static_cast<std::uint64_t>(span->end - span->begin);
  auto source = exports_.reach(peer, what, near.device);
  if (!source) return std::unexpected(std::move(source).error());
  auto copy = copies_.layouts().read(engine, side_of(source->address - span->begin, from.shape), to, bytes);
  if (!copy) return std::unexpected(std::move(copy).error());
  return Reading{.copy = std::move(*copy), .mapping = std::move(source->mapping)};
}

void GpuMessages::push(Peer& peer, std::uint32_t number, const wire::GpuTarget& target,
                       const std::byte* piece) {
  Request* send = find_pushed(peer, target);
  if (!send) return links_.malformed(peer, "asks for a copy of a send that is not pending");
  links_.prepare_answer(peer);
  const wire::GpuExport to = exports_.resolve(peer, number, piece, target.offset, target.bytes);
  if (!park(peer, *send, target, to)) push_to(peer, *send, target, to);
}

Request* GpuMessages::find_pushed(const Peer& peer, const wire::GpuTarget& target) {
  Request* send = completion_.find(target.sender);
  const bool fits = send && send->kind == Request::Kind::send && send->peer == &peer && !send->complete &&
                    !send->unsent && send->transfer == Request::Transfer::none &&
                    (send->gpu || !send->payload.type) && target.bytes != 0 &&
                    target.bytes <= send->payload.bytes;
  return fits ? send : nullptr;
}

void GpuMessages::push_to(Peer& peer, Request& send, const wire::GpuTarget& target,
                          const wire::GpuExport& to) {
  auto outcome = wire::GpuOutcome::hindered;
  Result<> started = isthmus::fail(ErrorClass::no_mem);
  try {
    started = start_push(peer, send, target, to, outcome);
  } catch (const std::bad_alloc&) {
    outcome = wire::GpuOutcome::hindered;
  }
  if (started) return;
  const bool may_go_on = windows_.may_serve() && (send.gpu || send.memory == MemoryKind::pinned);
  if (outcome == wire::GpuOutcome::hindered || !may_go_on)
    links_.note_gpu_reason(peer, started.error(), true);
  const wire::GpuEnd end{.receiver = target.receiver, .outcome = outcome, .reserved = 0};
  links_.send_control(peer, wire::CellKind::gpu_end, &end, sizeof end);
}

Result<> GpuMessages::start_push(Peer& peer, Request& send, const wire::GpuTarget& target,
                                 const wire::GpuExport& to, wire::GpuOutcome& outcome) {
  Buffer near;
  if (send.gpu) {
    near = send.gpu->buffer;
  } else {
    // From memory of the host it goes straight to the GPU that wants it.
    const auto device = gpus_.find(to.memory.device);
    if (!device) outcome = wire::GpuOutcome::refused;
    if (!device) return isthmus::fail(ErrorClass::other, "this process does not see the receiver's GPU");
    near.device = *device;
  }
  ISTHMUS_TRY(copies_.check_still_there(near));
  auto reached = exports_.reach(peer, to, near.device);
  if (!reached) {
    const ErrorClass why = reached.error().error_class();
    if (why == ErrorClass::pending) outcome = wire::GpuOutcome::lacking;
    if (why != ErrorClass::pending && why != ErrorClass::no_mem) outcome = wire::GpuOutcome::refused;
    return std::unexpected(std::move(reached).error());
  }
  GpuTransfers::Running running{PendingCopy(),   GpuTransfers::Purpose::push, send.cookie(),
                                target.receiver, std::move(reached->mapping), {}};
  ISTHMUS_TRY(transfers_.start_or_hold(send, near, payload_of(send),
                                       Payload::of(reached->address, target.bytes), std::move(running)));
  peer.traffic.add_sent(Protocol::gpu_push, target.bytes);
  return {};
}

}  // namespace isthmus
