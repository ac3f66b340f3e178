// How ranks of one host tell each other of messages in GPU memory, and whose GPU copies them.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/unique_fd.hpp"
#include "p2p/gpu_copy/shapes.hpp"
#include "p2p/link/links.hpp"
#include "p2p/link/peer_access.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus {
namespace {

/// With so many messages on their way that the sender's GPU is to copy, the receiver's copies the next ones:
/// the engines of both GPUs copy at the same time.
constexpr std::uint32_t helped_from = 3;
/// Messages that could have been so copied before the sender's memory is opened for it: 2 ms.
constexpr std::uint32_t help_opens_after = 128;

/// How often the clock is looked at, and the program's allocations: 0.1 us each.
constexpr std::chrono::milliseconds freed_interval{5};

/// A descriptor of another process (Linux 5.6), which may be asked for by whoever may read its memory.
Result<UniqueFd> fetch_descriptor(pid_t pid, int descriptor) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  UniqueFd fetched;
  if (process) fetched = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), descriptor, 0)));
  if (!fetched)
    return isthmus::fail(ErrorClass::other, std::string("the descriptor of its GPU memory cannot be had: ") +
                                                std::strerror(errno));
  return fetched;
}

/// What a send's bytes are copied from: in GPU memory, where a kernel may have packed them.
const Payload& payload_of(const Request& send) {
  return send.gpu ? send.gpu->payload : send.payload;
}

}  // namespace

GpuExports& GpuMessages::exports(const Peer& peer) {
  const unsigned renewals = copies_.contexts().renewals();
  if (std::exchange(renewals_, renewals) != renewals) [[unlikely]]
    for (auto& [id, known] : exports_)
      known.try_again();
  return exports_[peer.id];
}

// --- announcement

GpuMessages::Announcement GpuMessages::announce(Peer& peer, GpuPart& part) {
  GpuExports& known = exports(peer);
  if (const auto number = known.number_of(part.buffer.allocation))
    return {.number = *number, .in_full = false};
  tell_freed();
  Announcement announcement{.number = known.next_number()};
  announcement.what.descriptor = -1;
  auto offer = exporter_.offer(part.buffer);
  if (!offer) {
    announcement.what.memory.bytes = part.buffer.bytes;
    return announcement;
  }
  announcement.what.memory = *offer;
  if (offer->has_descriptor() && !known.may_be_open(offer->allocation)) {
    if (auto descriptor = exporter_.descriptor(offer->allocation)) part.descriptor = std::move(*descriptor);
  }
  return announcement;
}

bool GpuMessages::publish(Peer& peer, wire::CellHeader header, const void* payload,
                          Announcement& announcement, GpuPart& part) {
  const bool has_shape = header.kind == wire::CellKind::gpu_offer && part.shape.level_count != 0;
  const std::size_t told = announcement.in_full ? sizeof announcement.what : 0;
  header.size = static_cast<std::uint32_t>(told + (has_shape ? sizeof part.shape : 0));
  if (header.size == 0) {
    peer.out.publish(header, payload, wire::inline_capacity);
    return true;
  }
  std::byte* to = peer.out.reserve(header.size);
  if (!to) return false;
  const bool is_export = announcement.in_full && announcement.what.memory.exporter != 0;
  GpuExports& known = exports(peer);
  if (is_export) known.handed(part.buffer.allocation);  // after the cell is written nothing may fail
  if (announcement.in_full) {
    if (part.descriptor) hand_over({&peer.id, 1}, announcement.what, part.descriptor);
    std::memcpy(to, &announcement.what, sizeof announcement.what);
  }
  if (has_shape) std::memcpy(to + told, &part.shape, sizeof part.shape);
  peer.out.publish_reserved(header, payload, wire::inline_capacity);
  if (is_export) known.told(part.buffer.allocation);
  return true;
}

bool GpuMessages::emit(Peer& peer, Request& send, const Target& target) {
  if (!peer.out.open() || !peer.out.has_cell()) return false;
  wire::CellHeader header{.context = target.context,
                          .source = target.source,
                          .tag = target.tag,
                          .size = 0,
                          .kind = wire::CellKind::gpu_offer,
                          .flag = wire::CellFlag::none,
                          .reserved = 0};
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
  Announcement announcement = announce(peer, *send.gpu);
  const wire::GpuOffer offer{.sender = send.cookie(),
                             .bytes = send.payload.bytes,
                             .offset = send.gpu->buffer.offset(),
                             .number = announcement.number,
                             .latency_bound = peer.workload.workload() == Workload::latency ? 1U : 0U};
  return publish(peer, header, &offer, announcement, *send.gpu);
}

bool GpuMessages::ask_to_push(Peer& peer, Request& receive, wire::Cookie sender) {
  GpuPart& part = *receive.gpu;
  const bool can_export = part.is_one_copy() && part.buffer.kind != MemoryKind::managed && part.buffer.is_own;
  if (!can_export || exports(peer).is_refused(part.buffer.allocation)) return false;
  if (!peer.out.open()) links_.connect(peer);
  if (!peer.out.open() || !peer.control.empty() || !peer.out.has_cell()) return false;
  Announcement announcement = announce(peer, part);
  if (announcement.in_full && announcement.what.memory.exporter == 0) return false;
  const wire::GpuTarget target{
      .sender = sender, .receiver = receive.cookie(), .bytes = receive.limit, .offset = part.buffer.offset()};
  if (!publish(peer,
               {.context = 0,
                .source = 0,
                .tag = static_cast<std::int32_t>(announcement.number),
                .size = 0,
                .kind = wire::CellKind::gpu_target,
                .flag = wire::CellFlag::none,
                .reserved = 0},
               &target, announcement, part))
    return false;
  links_.after_publish(peer);
  receive.transfer = Request::Transfer::push;
  receive.peer_cookie = sender;
  exports(peer).asked();
  return true;
}

wire::GpuExport GpuMessages::resolve(Peer& peer, std::uint32_t number, const std::byte* piece,
                                     std::uint64_t offset, std::uint64_t bytes) {
  wire::GpuExport what{};
  if (number >= wire::told_exports) return what;
  if (piece) {
    std::memcpy(&what, piece, sizeof what);
    if (what.memory.exporter != 0 && !is_exporter(peer, what.memory.exporter)) {
      if (what.ticket != 0 && links_.job().box)
        static_cast<void>(links_.job().box->take_now(what.left()));  // and close it
      links_.malformed(peer, "names GPU memory of another process as its own");
      return {};
    }
    if (what.memory.exporter != 0) exports(peer).heard(number, what);
    expect_descriptor(peer, what);
  } else {
    what = exports(peer).heard(number);
  }
  what.memory.offset = offset;
  what.memory.bytes = bytes;
  return what;
}

bool GpuMessages::is_exporter(const Peer& peer, std::uint64_t exporter) {
  if (const std::uint64_t known = exports(peer).exporter(); known != 0) return known == exporter;
  return exporter != self_.nonce && std::ranges::none_of(exports_, [exporter](const auto& each) {
           return each.second.exporter() == exporter;
         });
}

void GpuMessages::tell_freed() {
  exporter_.take_freed([this](std::uint64_t allocation) {
    for (auto& [id, known] : exports_) {
      Peer& peer = links_.peer(id);
      if (known.may_be_open(allocation)) links_.prepare_answer(peer);
      if (!known.forget(allocation)) continue;
      const wire::GpuFreed freed{.allocation = allocation};
      links_.send_control(peer, wire::CellKind::gpu_freed, &freed, sizeof freed);
    }
  });
}

void GpuMessages::look_for_freed() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_for_freed_ < freed_interval) return;
  looked_for_freed_ = now;
  gdr_.close_freed();
  tell_freed();
}

void GpuMessages::forget(Peer& peer, const wire::GpuFreed& freed) {
  const std::uint64_t exporter = exports(peer).exporter();
  for (GpuDependent* dependent : dependents_)
    dependent->forget(exporter, freed.allocation);
  mappings_.forget(exporter, freed.allocation);
  exports(peer).heard_freed(freed.allocation);
}

// --- who copies

bool GpuMessages::can_help(const Peer& peer, const wire::GpuExport& from, cuda::Device local) {
  GpuExports& known = exports(peer);
  const std::uint32_t asked_for = known.copies_asked_for();
  if (asked_for < helped_from || links_.settings().gpu_path != GpuPathSetting::automatic) return false;
  const auto is_pull = [](const Held& held) { return held.running.purpose == Purpose::pull; };
  if (std::ranges::count(running_, Purpose::pull, &Running::purpose) +
          std::ranges::count_if(held_, is_pull) >=
      asked_for)
    return false;
  if (mappings_.find(from.memory, local)) return true;
  // A descriptor holds for the message that it came with.
  const bool may_open = !from.memory.has_descriptor() && !known.is_unreachable(from.memory.allocation);
  return may_open && known.missed(help_opens_after);
}

std::optional<StagedWay> GpuMessages::begin(Peer& peer, Request& receive, const wire::GpuOffer& offer,
                                            const GpuSource& from) {
  if (park(peer, receive, offer, from)) return std::nullopt;
  const wire::Cookie sender = offer.sender;
  if (receive.gpu) receive.gpu->source = from;
  const GpuPlanKey key = key_of(peer, receive, from);
  const Plan planned = plan(peer, key);
  std::optional<Error> trouble;
  for (const Way& way : planned.serving(receive.limit))
    switch (way.protocol) {
      case Protocol::gpu_loopback:
        if (ask_to_loop(peer, receive, sender)) return std::nullopt;
        break;
      case Protocol::gpu_courier:
        if (begin_by_courier(peer, receive, sender, from)) return std::nullopt;
        break;
      case Protocol::gpu_push:
        if (begin_by_push(peer, receive, sender, from)) return std::nullopt;
        break;
      case Protocol::gpu_pull:
        if (try_pull(peer, receive, sender, from, trouble)) return std::nullopt;
        break;
      case Protocol::gpu_bounce:
      case Protocol::gpu_staged:
        if (!trouble) note_plan(peer, key);
        return StagedWay{way.protocol, std::move(trouble)};
      default:
        break;  // it has been offered
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
  const GpuSource& from = receive.gpu->source;
  const Plan planned = plan(peer, key_of(peer, receive, from));
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
  exports(peer).forget(part.buffer.allocation);
  if (why == wire::GpuOutcome::refused) {
    exports(peer).refuse(part.buffer.allocation);
    exports(peer).note(GpuExports::Whose::own, export_kind_of(part.buffer.kind),
                       "the peer cannot open it, and tells why");
  }
  return begin_rest(peer, receive, true);
}

Result<bool> GpuMessages::pull(Peer& peer, Request& receive, wire::Cookie sender, const GpuSource& from) {
  if (from.memory.memory.exporter == 0) return false;  // the sender knows why it cannot export it
  reserve_running(1);
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
  Running running{PendingCopy(), Purpose::pull, receive.cookie(), sender, {}, {}};
  if (from.shape.level_count != 0) {
    auto reading = start_read(peer, from, near, target, bytes);
    if (!reading) return std::unexpected(std::move(reading).error());
    if (!reading->copy) return false;
    running.copy = std::move(*reading->copy);
    running.mapping = std::move(reading->mapping);
    add(receive, std::move(running));
  } else {
    auto source = reach(peer, from.memory, near.device);
    if (!source) return std::unexpected(std::move(source).error());
    running.mapping = std::move(source->mapping);
    ISTHMUS_TRY(
        start_or_hold(receive, near, Payload::of(source->address, bytes), target, std::move(running)));
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
  auto source = reach(peer, what, near.device);
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
  const wire::GpuExport to = resolve(peer, number, piece, target.offset, target.bytes);
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
  const bool may_go_on = may_bounce() && (send.gpu || send.memory == MemoryKind::pinned);
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
  auto reached = reach(peer, to, near.device);
  if (!reached) {
    const ErrorClass why = reached.error().error_class();
    if (why == ErrorClass::pending) outcome = wire::GpuOutcome::lacking;
    if (why != ErrorClass::pending && why != ErrorClass::no_mem) outcome = wire::GpuOutcome::refused;
    return std::unexpected(std::move(reached).error());
  }
  Running running{
      PendingCopy(), Purpose::push, send.cookie(), target.receiver, std::move(reached->mapping), {}};
  ISTHMUS_TRY(start_or_hold(send, near, payload_of(send), Payload::of(reached->address, target.bytes),
                            std::move(running)));
  peer.traffic.add_sent(Protocol::gpu_push, target.bytes);
  return {};
}

Result<GpuMessages::Reached> GpuMessages::reach(Peer& peer, const wire::GpuExport& what, cuda::Device local) {
  if (what.memory.exporter == 0)
    return isthmus::fail(ErrorClass::other, "it has not been told which memory it is");
  if (links_.job().in_process)  // all ranks of the job are in this process
    return Reached{.address = reinterpret_cast<std::byte*>(what.memory.base) + what.memory.offset,
                   .mapping = {}};
  auto mapped = map(peer, what, local);
  if (!mapped) return std::unexpected(std::move(mapped).error());
  std::byte* const address = (*mapped)->at(what.memory);
  if (!address) return isthmus::fail(ErrorClass::intern, "the peer names more than its allocation has");
  return Reached{.address = address, .mapping = std::move(*mapped)};
}

Result<std::shared_ptr<const Mapping>> GpuMessages::map(Peer& peer, const wire::GpuExport& what,
                                                        cuda::Device local) {
  UniqueFd descriptor = exports(peer).take_descriptor(what.memory.allocation);
  if (auto known = mappings_.find(what.memory, local)) return known;
  if (exports(peer).is_unreachable(what.memory.allocation))
    return isthmus::fail(ErrorClass::other, "this memory has been refused before");
  if (what.memory.has_descriptor() && !descriptor) {
    auto fetched = descriptor_of(peer, what);
    if (!fetched) {
      if (fetched.error().error_class() != ErrorClass::pending)
        exports(peer).note(GpuExports::Whose::peers, what.memory.kind, fetched.error().text());
      return std::unexpected(std::move(fetched).error());
    }
    descriptor = std::move(*fetched);
  }
  ISTHMUS_TRY(copies_.check_alive(local));
  for (const std::uint64_t gone : mappings_.overlapping(what.memory))
    for (GpuDependent* dependent : dependents_)
      dependent->forget(what.memory.exporter, gone);
  auto mapping = mappings_.open(what.memory, local, descriptor.get());
  // Where memory is short now, it may be had later.
  if (!mapping && mapping.error().error_class() != ErrorClass::no_mem)
    exports(peer).cannot_reach(what.memory.allocation);
  exports(peer).note(GpuExports::Whose::peers, what.memory.kind, mapping ? "" : mapping.error().text());
  return mapping;
}

// --- descriptors

void GpuMessages::hand_over(std::span<const PeerId> peers, wire::GpuExport& what, UniqueFd& descriptor) {
  what.descriptor = descriptor.get();
  launch::DescriptorBox* const box = links_.job().box.get();
  if (!box || !descriptor) return;
  if (++last_ticket_ == 0) ++last_ticket_;
  const wire::DescriptorTicket ticket{what.memory.exporter, last_ticket_};
  const auto left =
      std::ranges::count_if(peers, [&](PeerId id) { return box->leave(id, ticket, descriptor.get()); });
  if (left > 0) what.ticket = last_ticket_;
  if (static_cast<std::size_t>(left) < peers.size()) return;
  what.descriptor = -1;
  descriptor.reset();
}

UniqueFd GpuMessages::take(PeerId peer, const wire::GpuExport& what) {
  launch::DescriptorBox* const box = links_.job().box.get();
  if (what.ticket == 0 || !box) return {};
  GpuExports& known = exports(links_.peer(peer));
  if (!known.may_wait()) return box->take_now(what.left());
  UniqueFd taken = box->take(what.left());
  if (!taken) known.give_up();
  return taken;
}

/// Of the exporter's own, where none came through the box.
Result<UniqueFd> GpuMessages::descriptor_of(Peer& peer, const wire::GpuExport& what) {
  if (what.descriptor < 0)
    return isthmus::fail(
        what.ticket != 0 ? ErrorClass::other : ErrorClass::pending,
        what.ticket != 0
            ? "its descriptor, which was left for this process, is gone, and the memory is not open any more"
            : "its descriptor has been offered before, and the memory is not open any more");
  access_.probe(peer);
  if (!peer.pull)
    return isthmus::fail(ErrorClass::other,
                         "the descriptor of its GPU memory cannot be had: " + peer.pull.error().text);
  return fetch_descriptor(peer.pid, what.descriptor);
}

}  // namespace isthmus
