// Sending and receiving messages whose bytes travel with their envelope, posting receives, and messages to
// oneself.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "p2p/active/cpu_destination.hpp"
#include "p2p/engine.hpp"
#include "p2p/message/pack.hpp"

namespace isthmus {
namespace {

/// Messages longer than this go in pieces of it, so that the receiver copies out while the sender still
/// copies in. A piece costs the journey of a cache line, which is more than it hides where the cores are far
/// from each other. In pieces of 2, 4, 8 and 16 KiB, us one way: 4 KiB 1.10, 0.88, 0.87, 0.87; 16
/// KiB 3.4, 1.9, 1.6, 1.5, fresh data 3.3, 2.1, 2.0, 2.1; between virtual cores of one core 4 KiB 0.25, 0.28,
/// 0.28, 0.28, 16 KiB 0.64, 0.62, 0.49, 0.50 (EPYC, medians of 9 runs in turn).
constexpr std::uint32_t piece_bytes = 8192;

wire::CellHeader header_of(const Target& target, std::uint64_t size, wire::CellKind kind) {
  return {.context = target.context,
          .source = target.source,
          .tag = target.tag,
          .size = static_cast<std::uint32_t>(size),
          .kind = kind,
          .flag = wire::CellFlag::none,
          .reserved = 0};
}

/// What the receiver is to know of a send's memory. Pinned memory a GPU copies by itself. Pageable memory the
/// driver copies to its own first, while the caller waits, and about as fast as `Staging` (64 KiB to and from
/// a GPU 20 us by the driver, 15 by `Staging`; 64 MiB 11 GB/s to a GPU and 16 from it, 12.5 by `Staging`; 2 x
/// H200).
wire::SendMemory told_of(const Request& send) noexcept {
  if (send.payload.type) return wire::SendMemory::plain;
  if (send.memory == MemoryKind::managed) return wire::SendMemory::managed;
  return send.memory == MemoryKind::pinned ? wire::SendMemory::pinned : wire::SendMemory::plain;
}

Target target_of(const Request& send) {
  return {send.peer->id, send.context_id, send.source, send.tag};
}

}  // namespace

Request* Engine::start_traced_send(const Target& target, const Payload& payload, SendMode mode, Start start) {
  const std::int64_t began = trace::now();
  Request* const send = start_untraced_send(target, payload, mode, start);
  trace_->sent(target, payload.bytes, send, began);
  return send;
}

Request* Engine::start_any_send(const Target& target, const Payload& payload, SendMode mode, Start start) {
  GpuMessages* const gpu = gpu_.get();
  if (!gpu) return start_cpu_send(target, payload, mode, start);
  const auto tried = gpu->try_send(target, payload, mode, start);
  if (Request* const* const sent = std::get_if<Request*>(&tried)) {
    // As with receives, a program that starts one after another is to hear of the answers to the first.
    if (start == Start::nonblocking) look_for_answers();
    return *sent;
  }
  const MemoryKind memory = std::get<MemoryKind>(tried);
  if (memory == MemoryKind::pageable || payload.bytes <= wire::inline_capacity ||
      target.peer == links_.rank())
    return start_cpu_send(target, payload, mode, start);
  return start_send_slow(links_.peer(target.peer), target, payload, mode, start, memory);
}

Request* Engine::start_cpu_send(const Target& target, const Payload& payload, SendMode mode, Start start) {
  if (target.peer == links_.rank()) return send_to_self(target, payload, mode);
  Peer* const known = links_.find(target.peer);
  if (!known) [[unlikely]]
    return start_send_slow(links_.peer(target.peer), target, payload, mode, start);
  Peer& peer = *known;
  if (payload.bytes <= wire::inline_capacity && mode == SendMode::standard && peer.out.open() &&
      peer.waiting.empty() && peer.out.has_cell()) [[likely]] {
    const wire::CellHeader header = header_of(target, payload.bytes, wire::CellKind::eager_inline);
    if (!payload.type) [[likely]] {
      peer.out.publish(header, payload.data, payload.bytes);
    } else {
      std::array<std::byte, wire::inline_capacity> packed;
      pack_into(payload, packed.data());
      peer.out.publish(header, packed.data(), payload.bytes);
    }
    peer.traffic.add_sent(Protocol::eager_inline, payload.bytes);
    links_.after_publish(peer);
    return nullptr;
  }
  return start_send_slow(peer, target, payload, mode, start);
}

Request* Engine::start_send_slow(Peer& peer, const Target& target, const Payload& payload, SendMode mode,
                                 Start start, MemoryKind memory) {
  if (!peer.is_local()) return network_->start_send(peer, target, payload, mode);
  if (!peer.out.open() && !links_.connect(peer)) [[unlikely]]
    return refuse_send(target, payload, mode);
  const bool traced = payload.bytes > wire::inline_capacity;
  if (peer.out.open() && payload.bytes <= peer.eager_limit && mode == SendMode::standard &&
      peer.waiting.empty() && emit_eager(peer, target, payload, nullptr)) {
    links_.after_publish(peer);
    // Not before: the receiver would wait for it. 1 KiB one way, the least of 31 runs: 461 ns counted before,
    // 446 after, 443 not counted.
    if (traced) links_.trace_send(peer, start);
    return nullptr;
  }
  Request* send = completion_.make_send(target, payload, mode);
  send->peer = &peer;
  send->memory = memory;
  try {
    start_offer(peer, *send);
  } catch (...) {
    completion_.drop(send);
    throw;
  }
  if (traced) links_.trace_send(peer, start);
  return send;
}

Request* Engine::refuse_send(const Target& target, const Payload& payload, SendMode mode) {
  Peer& peer = links_.peer(target.peer);
  Request* send = completion_.make_send(target, payload, mode);
  send->peer = &peer;
  send->status.error = static_cast<int>(peer.lost ? ErrorClass::proc_aborted : ErrorClass::intern);
  completion_.finish(*send);
  return send;
}

void Engine::start_offer(Peer& peer, Request& send) {
  if (!peer.out.open() && !links_.connect(peer)) {
    send.status.error = static_cast<int>(peer.lost ? ErrorClass::proc_aborted : ErrorClass::intern);
    completion_.finish(send);
  } else if (peer.waiting.empty() && emit(peer, send)) {
    links_.after_publish(peer);
  } else {
    links_.schedule(peer);
    send.unsent = true;
    peer.waiting.push_back(&send);
  }
}

/// Writes the envelope of a send, and its bytes where they go with it. False if the ring has no room.
bool Engine::emit(Peer& peer, Request& send) {
  const Target target = target_of(send);
  if (send.payload.bytes > peer.eager_limit || send.synchronous || send.gpu) claims_.offer(send.cookie());
  if (send.gpu) [[unlikely]] {
    if (!gpu_.made()->emit(peer, send, target)) return false;
    send.unsent = false;
    return true;
  }
  if (send.payload.bytes <= peer.eager_limit) {
    if (!emit_eager(peer, target, send.payload, send.synchronous ? &send : nullptr)) return false;
    send.unsent = false;
    if (!send.synchronous) completion_.finish(send);
    return true;
  }
  const bool is_readable = !send.payload.type && send.memory != MemoryKind::managed;
  const std::byte* const data = is_readable ? send.payload.data : nullptr;
  const std::uint32_t allocation = data ? memories_.announce(peer, data, send.payload.bytes) : 0;
  if (!peer.out.has_cell()) return false;
  access_.probe_if_possible(peer);
  const wire::SendOffer offer{.sender = send.cookie(),
                              .bytes = send.payload.bytes,
                              .address = reinterpret_cast<std::uint64_t>(data),
                              .memory = told_of(send),
                              .reads_only = static_cast<std::uint16_t>(peer.push ? 0 : 1),
                              .allocation = allocation};
  peer.out.publish(header_of(target, 0, wire::CellKind::ready_to_send), &offer, sizeof offer);
  send.unsent = false;
  return true;
}

bool Engine::emit_eager(Peer& peer, const Target& target, const Payload& payload,
                        const Request* synchronous) {
  if (!peer.out.has_cell()) return false;
  if (payload.bytes <= wire::inline_capacity && !synchronous) {
    std::array<std::byte, wire::inline_capacity> packed;
    pack_into(payload, packed.data());
    peer.out.publish(header_of(target, payload.bytes, wire::CellKind::eager_inline), packed.data(),
                     payload.bytes);
    peer.traffic.add_sent(Protocol::eager_inline, payload.bytes);
    return true;
  }
  wire::CellHeader header = header_of(target, payload.bytes, wire::CellKind::eager);
  wire::EagerHeader eager{.bytes = payload.bytes, .sender = 0};
  if (synchronous) {
    header.flag = wire::CellFlag::synchronous;
    eager.sender = synchronous->cookie();
  }
  // No more pieces than half of the cells, so that they always find room in the end.
  if (payload.bytes > piece_bytes && !links_.peers_sleep() &&
      payload.bytes <= std::uint64_t{piece_bytes} * (links_.region().geometry().cells / 2)) {
    if (!emit_pieces(peer, header, eager, payload)) return false;
  } else {
    std::byte* to = peer.out.reserve(header.size);
    if (!to) return false;
    pack_into(payload, to);
    peer.out.publish_reserved(header, &eager, sizeof eager);
  }
  links_.wrote_piece(peer, payload.bytes);
  peer.traffic.add_sent(Protocol::eager, payload.bytes);
  return true;
}

bool Engine::emit_pieces(Peer& peer, wire::CellHeader header, const wire::EagerHeader& eager,
                         const Payload& payload) {
  const auto pieces = static_cast<std::uint32_t>((payload.bytes + piece_bytes - 1) / piece_bytes);
  if (!peer.out.has_room(pieces, payload.bytes, piece_bytes)) return false;
  std::optional<Cursor> cursor;
  if (payload.type) cursor.emplace(*payload.type, payload.data, payload.count);
  for (std::uint64_t offset = 0; offset < payload.bytes; offset += piece_bytes) {
    header.size = static_cast<std::uint32_t>(std::min<std::uint64_t>(piece_bytes, payload.bytes - offset));
    std::byte* to = peer.out.reserve(header.size);
    if (cursor)
      cursor->pack({to, header.size});
    else
      std::memcpy(to, payload.data + offset, header.size);
    peer.out.publish_reserved(header, &eager, sizeof eager);
    header.kind = wire::CellKind::eager_more;
  }
  return true;
}

int Engine::send(const Target& target, const Payload& payload, SendMode mode) {
  Request* request = start_send(target, payload, mode, Start::blocking);
  if (!request) [[likely]]
    return 0;
  wait(*request);
  const int error = request->status.error;
  free(request);
  return error;
}

Request* Engine::start_receive(MatchContext& context, int source, int tag, const Payload& payload) {
  Request* receive = completion_.pool().take(Request::Kind::receive);
  receive->source = source;
  receive->tag = tag;
  receive->payload = payload;
  receive->context = &context;
  if (payload.type) [[unlikely]]
    receive->type = Ref<const Datatype>::share(payload.type);
  if (trace_) [[unlikely]]
    trace_->receives(*receive);
  try {
    if (uses_cuda() && gpu() && !gpu_.made()->try_prepare(*receive)) [[unlikely]]
      return receive;
    if (context.has_unexpected() && !context.is_broken_off()) {
      if (UnexpectedMessage* message = unexpected_.take(context, source, tag)) {
        accept(message, *receive);
        return receive;
      }
    }
  } catch (...) {
    completion_.pool().give_back(receive);
    throw;
  }
  if (context.is_broken(source, tag)) [[unlikely]] {
    receive->status.error = static_cast<int>(context.why_broken());
    completion_.finish(*receive);
    return receive;
  }
  context.post(receive);
  // What peers offer is answered while a program posts one receive after another, so that the first copies
  // begin meanwhile. GPUs are not asked: that takes as long as all the rest of the call.
  if (receive->gpu) [[unlikely]]
    look_for_answers();
  return receive;
}

/// Whoever waits looks again: what has begun does not fail because a look has no memory.
void Engine::look_for_answers() noexcept {
  try {
    listen();
  } catch (const std::bad_alloc&) {
    if (links_.peers_sleep()) links_.ring_again(links_.slot());
  }
}

Status Engine::receive(MatchContext& context, int source, int tag, const Payload& payload) {
  Request* request = start_receive(context, source, tag, payload);
  wait(*request);
  const Status status = request->status;
  completion_.pool().give_back(request);
  return status;
}

Status Engine::send_receive(const Target& target, const Payload& out, MatchContext& context, int source,
                            int tag, const Payload& in) {
  completion_.pool().reserve_two();
  Request* receive = start_receive(context, source, tag, in);
  Request* send = nullptr;
  try {
    send = start_send(target, out, SendMode::standard, Start::blocking);
  } catch (...) {
    withdraw(receive);
    throw;
  }
  wait(*receive);
  Status status = receive->status;
  completion_.pool().give_back(receive);
  if (send) {
    wait(*send);
    if (status.error == 0) status.error = send->status.error;
    free(send);
  }
  return status;
}

Request* Engine::start_matched_receive(UnexpectedMessage* message, const Payload& payload) {
  Request* receive = completion_.pool().take(Request::Kind::receive);
  receive->source = message->source;
  receive->tag = message->tag;
  receive->payload = payload;
  receive->context = message->context;
  if (payload.type) receive->type = Ref<const Datatype>::share(payload.type);
  if (trace_) trace_->receives_taken(*receive, *message);
  try {
    unexpected_.prepare_answer(*message);
    if (uses_cuda() && gpu() && !gpu_.made()->try_prepare(*receive)) [[unlikely]] {
      // Nobody fetches it any more, and its sender is not to wait for that.
      if (message->content == UnexpectedMessage::Content::self)
        completion_.finish(*message->local_send);
      else
        unexpected_.decline(*message);
      unexpected_.release(message);
      return receive;
    }
  } catch (...) {
    completion_.pool().give_back(receive);
    throw;
  }
  accept(message, *receive);
  return receive;
}

void Engine::receive_inline(Peer& peer, const wire::CellHeader& header, const std::byte* bytes) {
  MatchContext& context = matcher_.context(header.context);
  if (!context.is_source(header.source)) [[unlikely]]
    return receive_early(peer, context, header, bytes);
  peer.traffic.add_received(Protocol::eager_inline, header.size);
  if (Request* receive = context.match(header.source, header.tag)) [[likely]] {
    deliver(completion_, *receive, header.source, header.tag, bytes, header.size);
    return;
  }
  UnexpectedMessage* message = unexpected_.make(peer, header.source, header.tag, header.size);
  copy_small(message->data, bytes, header.size);
  unexpected_.keep(context, header.context, message);
}

void Engine::receive_early(Peer& peer, MatchContext& context, const wire::CellHeader& header,
                           const std::byte* bytes) {
  if (!unexpected_.may_be_early(peer, context, header.source)) return;
  peer.traffic.add_received(Protocol::eager_inline, header.size);
  constexpr auto content = UnexpectedMessage::Content::bytes;
  if (unexpected_.refuse(peer, context, {header.context, header.source, header.tag, header.size},
                         {.content = content, .is_awaited = false}))
    return;
  UnexpectedMessage* message = unexpected_.make(peer, header.source, header.tag, header.size);
  copy_small(message->data, bytes, header.size);
  unexpected_.keep(context, header.context, message);
}

void Engine::receive_eager(Peer& peer, const wire::CellHeader& header, const wire::EagerHeader& eager,
                           const std::byte* bytes) {
  MatchContext& context = matcher_.context(header.context);
  if (!context.is_source(header.source) && !unexpected_.may_be_early(peer, context, header.source))
      [[unlikely]]
    return;
  if (eager.bytes < header.size || eager.bytes > wire::maximum_piece(links_.region().geometry())) [[unlikely]]
    return links_.malformed(peer, "eager message longer than a ring carries");
  if (peer.incoming_left != 0) [[unlikely]]
    abandon_pieces(peer);
  const bool synchronous = header.flag == wire::CellFlag::synchronous;
  const std::uint64_t left = eager.bytes - header.size;
  const auto begin = [&] {
    peer.incoming_left = left;
    peer.traffic.add_received(Protocol::eager, eager.bytes);
  };
  const auto matched = synchronous
                           ? unexpected_.match_claimed(peer, context, header.source, header.tag, eager.sender)
                           : std::optional(matcher_.match(context, header.source, header.tag));
  if (!matched) return begin();
  if (Request* const receive = *matched) {
    begin();
    if (synchronous)
      links_.send_control(peer, wire::CellKind::acknowledge, &eager.sender, sizeof eager.sender);
    if (left == 0) return deliver(completion_, *receive, header.source, header.tag, bytes, header.size);
    begin_pieces(peer, *receive, header.source, header.tag, eager.bytes);
    if (!peer.incoming_receive) return completion_.finish(*receive);
    return add_piece(peer, bytes, header.size);
  }
  if (unexpected_.refuse(peer, context, {header.context, header.source, header.tag, eager.bytes},
                         {.content = UnexpectedMessage::Content::bytes,
                          .sender = eager.sender,
                          .is_awaited = synchronous,
                          .is_claimable = synchronous}))
    return begin();
  UnexpectedMessage* message = unexpected_.make(peer, header.source, header.tag, eager.bytes);
  message->is_awaited = message->is_claimable = synchronous;
  message->offer.sender = eager.sender;
  message->arrived = header.size;
  std::memcpy(message->data, bytes, header.size);
  unexpected_.keep(context, header.context, message);
  begin();
  if (left != 0) peer.incoming_message = message;
}

/// Prepares `receive` to be filled piece by piece. Where there is no memory for that it has failed, and no
/// receive takes the pieces.
void Engine::begin_pieces(Peer& peer, Request& receive, int source, int tag, std::uint64_t bytes) {
  receive.assign(nullptr, source, tag, bytes);
  const Payload* const landing = cpu_destination_of(receive);
  if (!landing) return;
  if (landing->type) receive.cursor.emplace(*landing->type, landing->data, landing->count);
  peer.incoming_receive = &receive;
}

void Engine::add_piece(Peer& peer, const std::byte* bytes, std::uint32_t size) {
  Request& receive = *peer.incoming_receive;
  const std::uint64_t taken = std::min<std::uint64_t>(size, receive.limit - receive.moved);
  if (receive.cursor)
    receive.cursor->unpack({bytes, taken});
  else if (taken != 0)
    std::memcpy(receive.payload.data + receive.moved, bytes, taken);
  receive.moved += taken;
  if (peer.incoming_left == 0) {
    peer.incoming_receive = nullptr;
    completion_.finish(receive);
  }
}

void Engine::receive_more(Peer& peer, const std::byte* bytes, std::uint32_t size) {
  if (size > peer.incoming_left) [[unlikely]]
    return links_.malformed(peer, "piece beyond the end of its message");
  peer.incoming_left -= size;
  if (peer.incoming_receive) return add_piece(peer, bytes, size);
  UnexpectedMessage* message = peer.incoming_message;
  if (!message) return;
  std::memcpy(message->data + message->arrived, bytes, size);
  message->arrived += size;
  if (peer.incoming_left == 0) peer.incoming_message = nullptr;
}

/// Ends a message that its sender has not ended, before the next one takes its place.
void Engine::abandon_pieces(Peer& peer) {
  links_.malformed(peer, "message that ends before its last piece");
  peer.incoming_left = 0;
  if (UnexpectedMessage* message = std::exchange(peer.incoming_message, nullptr)) {
    std::memset(message->data + message->arrived, 0, message->bytes - message->arrived);
    message->arrived = message->bytes;
  }
  if (Request* receive = std::exchange(peer.incoming_receive, nullptr)) {
    receive->status.error = static_cast<int>(ErrorClass::intern);
    completion_.finish(*receive);
  }
}

/// Continues with `receive` what began to arrive as `message`.
void Engine::adopt_pieces(UnexpectedMessage& message, Request& receive) {
  Peer& peer = *message.peer;
  if (peer.lost) return completion_.end_lost(receive, message.source, message.tag);
  peer.incoming_message = nullptr;
  begin_pieces(peer, receive, message.source, message.tag, message.bytes);
  if (!peer.incoming_receive) return completion_.finish(receive);
  add_piece(peer, message.data, static_cast<std::uint32_t>(message.arrived));
}

/// Completes or begins a receive with a message that came before it, and consumes the message.
void Engine::accept(UnexpectedMessage* message, Request& receive) {
  switch (message->content) {
    case UnexpectedMessage::Content::bytes:
      if (message->is_awaited) unexpected_.acknowledge(*message);
      if (message->arrived < message->bytes)
        adopt_pieces(*message, receive);
      else
        deliver(completion_, receive, message->source, message->tag, message->data, message->bytes);
      break;
    case UnexpectedMessage::Content::offer:
      rendezvous_.start(*message->peer, receive, message->source, message->tag, message->offer);
      break;
    case UnexpectedMessage::Content::remote_offer:
      network_->fetch(*message->peer, receive, message->source, message->tag,
                      {message->bytes, message->offer.address, message->offer.sender});
      break;
    case UnexpectedMessage::Content::remote_chunks:
      network_->fetch_chunks(*message->peer, receive, message->source, message->tag, message->bytes,
                             message->offer.sender);
      break;
    case UnexpectedMessage::Content::gpu_offer: {
      GpuSource from;
      std::memcpy(&from, message->large.get(), sizeof from);
      gpu_offers_.begin(*message->peer, receive, message->source, message->tag,
                        {.sender = message->offer.sender,
                         .bytes = message->bytes,
                         .offset = from.memory.memory.offset,
                         .number = 0,
                         .latency_bound = from.latency_bound},
                        from);
      break;
    }
    case UnexpectedMessage::Content::self:
      deliver_from_self(receive, *message);
      break;
  }
  unexpected_.release(message);
}

namespace {

std::uint64_t copy_payload(const Payload& from, const Payload& to) {
  if (!from.type && !to.type) {
    const std::uint64_t bytes = std::min(from.bytes, to.bytes);
    if (bytes != 0) std::memmove(to.data, from.data, bytes);
    return bytes;
  }
  if (!from.type) return fill(to, from.data, from.bytes);
  if (!to.type) {
    Cursor cursor(*from.type, from.data, from.count);
    return cursor.pack({to.data, to.bytes});
  }
  return copy(*from.type, from.data, from.count, *to.type, to.data, to.count);
}

/// A message from this process to itself has been matched.
void take_from_self(Request& receive, int source, int tag, const Payload& payload) {
  receive.matched = true;
  receive.status = {.source = source, .tag = tag, .bytes = 0};
  const Payload* const landing = cpu_destination_of(receive);
  if (!landing) return;
  receive.status.bytes = copy_payload(payload, *landing);
  if (payload.bytes > receive.payload.bytes) receive.status.error = static_cast<int>(ErrorClass::truncate);
}

}  // namespace

Request* Engine::send_to_self(const Target& target, const Payload& payload, SendMode mode) {
  MatchContext& context = matcher_.context(target.context);
  links_.peer(links_.rank()).traffic.add_sent(Protocol::local, payload.bytes);
  if (Request* receive = matcher_.match(context, target.source, target.tag)) {
    take_from_self(*receive, target.source, target.tag, payload);
    completion_.finish(*receive);
    return nullptr;
  }
  const bool is_eager = payload.bytes <= links_.eager_limit() && mode == SendMode::standard;
  UnexpectedMessage* message =
      unexpected_.make(links_.peer(links_.rank()), target.source, target.tag, is_eager ? payload.bytes : 0);
  message->cost = 0;  // no peer's
  Request* send = nullptr;
  if (is_eager) {
    pack_into(payload, message->data);
  } else {
    try {
      send = completion_.make_send(target, payload, mode);
    } catch (...) {
      matcher_.give_back(message);
      throw;
    }
    send->peer = message->peer;
    message->bytes = message->arrived = payload.bytes;
    message->content = UnexpectedMessage::Content::self;
    message->local_send = send;
  }
  matcher_.keep(context, target.context, message);
  return send;
}

void Engine::deliver_from_self(Request& receive, UnexpectedMessage& message) {
  Request& send = *message.local_send;
  take_from_self(receive, message.source, message.tag, send.payload);
  completion_.finish(send);
  completion_.finish(receive);
}

}  // namespace isthmus
