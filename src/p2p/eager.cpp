// Sending and receiving messages whose bytes travel with their envelope, posting receives, and messages to
// oneself.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/copy.hpp"
#include "p2p/engine.hpp"
#include "p2p/pack.hpp"

namespace isthmus {
namespace {

/// Copies packed bytes into a payload from its start; returns how many went in.
std::uint64_t fill(const Payload& payload, const std::byte* bytes, std::uint64_t size) {
  const std::uint64_t taken = std::min(size, payload.bytes);
  if (!payload.type) [[likely]] {
    if (taken <= wire::inline_capacity)
      copy_small(payload.data, bytes, taken);
    else
      std::memcpy(payload.data, bytes, taken);
    return taken;
  }
  Cursor cursor(*payload.type, payload.data, payload.count);
  return cursor.unpack({bytes, taken});
}

/// Messages longer than this go in pieces of it, so that the receiver copies out while the sender still
/// copies in.
constexpr std::uint32_t piece_bytes = 2048;

wire::CellHeader header_of(const Target& target, std::uint64_t size, wire::CellKind kind) {
  return {.context = target.context,
          .source = target.source,
          .tag = target.tag,
          .size = static_cast<std::uint32_t>(size),
          .kind = kind,
          .flag = wire::CellFlag::none,
          .reserved = 0};
}

/// Whether a GPU can copy memory of the host by itself: 0.09 us. Pageable memory the driver copies to its own
/// first, while the caller waits, and about as fast as `Staging` (64 KiB to and from a GPU 20 us by the
/// driver, 15 by `Staging`; 64 MiB 11 GB/s to a GPU and 16 from it, 12.5 by `Staging`; 2 x H200).
bool is_pinned(const cuda::Functions& functions, const void* address) noexcept {
  int type = 0;
  return functions.pointer_attribute(&type, cuda::PointerAttribute::memory_type,
                                     reinterpret_cast<cuda::Address>(address)) == cuda::Status::success &&
         type == static_cast<int>(cuda::MemoryType::host);
}

Target target_of(const Request& send) {
  return {send.peer->id, send.context_id, send.source, send.tag};
}

}  // namespace

Request* Engine::start_gpu_send(const Target& target, const Payload& payload, SendMode mode, Start start) {
  if (GpuMessages* gpu = this->gpu()) {
    if (const auto sent = gpu->try_send(target, payload, mode, start)) {
      // As with receives, a program that starts one after another is to hear of the answers to the first.
      if (start == Start::nonblocking) listen();
      return *sent;
    }
  }
  return start_host_send(target, payload, mode, start);
}

Request* Engine::start_host_send(const Target& target, const Payload& payload, SendMode mode, Start start) {
  if (target.peer == rank_) return send_to_self(target, payload, mode);
  Peer& peer = this->peer(target.peer);
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
    after_publish(peer);
    return nullptr;
  }
  return start_send_slow(peer, target, payload, mode, start);
}

Request* Engine::start_send_slow(Peer& peer, const Target& target, const Payload& payload, SendMode mode,
                                 Start start) {
  if (!peer.is_local()) return remote_->start_send(peer, target, payload, mode);
  if (!peer.out.open()) connect(peer);
  const bool traced = payload.bytes > wire::inline_capacity;
  if (peer.out.open() && payload.bytes <= peer.eager_limit && mode == SendMode::standard &&
      peer.waiting.empty() && emit_eager(peer, target, payload, nullptr)) {
    after_publish(peer);
    // Not before: the receiver would wait for it. 1 KiB one way, the least of 31 runs: 461 ns counted before,
    // 446 after, 443 not counted.
    if (traced) trace_send(peer, start);
    return nullptr;
  }
  Request* send = make_send(target, payload, mode);
  send->peer = &peer;
  start_offer(peer, *send);
  if (traced) trace_send(peer, start);
  return send;
}

void Engine::start_offer(Peer& peer, Request& send) {
  if (!peer.out.open()) connect(peer);
  if (!peer.out.open()) {
    send.status.error = static_cast<int>(ErrorClass::intern);
    finish(send);
  } else if (peer.waiting.empty() && emit(peer, send)) {
    after_publish(peer);
  } else {
    send.unsent = true;
    peer.waiting.push_back(&send);
    list(peer);
  }
}

void Engine::trace_send(Peer& peer, Start start) noexcept {
  if (!peer.workload.started(start)) return;
  peer.eager_limit = peer.workload.workload() == Workload::bandwidth ? bandwidth_eager_limit_ : eager_limit_;
}

Request* Engine::make_send(const Target& target, const Payload& payload, SendMode mode) {
  Request* send = requests_.take(Request::Kind::send);
  ++pending_sends_;
  send->source = target.source;
  send->tag = target.tag;
  send->context_id = target.context;
  send->payload = payload;
  send->synchronous = mode == SendMode::synchronous;
  if (payload.type) send->type = Ref<const Datatype>::share(payload.type);
  return send;
}

/// Writes the envelope of a send, and its bytes where they go with it. False if the ring has no room.
bool Engine::emit(Peer& peer, Request& send) {
  const Target target = target_of(send);
  if (send.gpu) [[unlikely]] {
    if (!gpu_->emit(peer, send, target)) return false;
    send.unsent = false;
    return true;
  }
  if (send.payload.bytes <= peer.eager_limit) {
    if (!emit_eager(peer, target, send.payload, send.synchronous ? &send : nullptr)) return false;
    send.unsent = false;
    if (!send.synchronous) finish(send);
    return true;
  }
  if (!peer.out.has_cell()) return false;
  const wire::SendOffer offer{
      .sender = send.cookie(),
      .bytes = send.payload.bytes,
      .address = send.payload.type ? 0 : reinterpret_cast<std::uint64_t>(send.payload.data),
      .by_gpu = gpu_ && !send.payload.type && is_pinned(*cuda_.find(), send.payload.data) ? 1U : 0U,
      .reserved = 0};
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
  if (payload.bytes > piece_bytes && !sleeps_ &&
      payload.bytes <= std::uint64_t{piece_bytes} * (region_.geometry().cells / 2)) {
    if (!emit_pieces(peer, header, eager, payload)) return false;
  } else {
    std::byte* to = peer.out.reserve(header.size);
    if (!to) return false;
    pack_into(payload, to);
    peer.out.publish_reserved(header, &eager, sizeof eager);
  }
  peer.last_piece = static_cast<std::uint32_t>(payload.bytes);
  last_out_ = &peer;
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
  Request* receive = requests_.take(Request::Kind::receive);
  receive->source = source;
  receive->tag = tag;
  receive->payload = payload;
  receive->context = &context;
  if (payload.type) [[unlikely]]
    receive->type = Ref<const Datatype>::share(payload.type);
  if (uses_cuda() && gpu() && !gpu_->try_prepare(*receive)) [[unlikely]]
    return receive;
  if (context.has_unexpected()) {
    if (UnexpectedMessage* message = context.find(source, tag)) {
      context.remove(message);
      accept(message, *receive);
      return receive;
    }
  }
  if (context.is_broken(source)) [[unlikely]] {
    receive->status.error = static_cast<int>(ErrorClass::proc_aborted);
    finish(*receive);
    return receive;
  }
  context.post(receive);
  // What peers offer is answered while a program posts one receive after another, so that the first copies
  // begin meanwhile. GPUs are not asked: that takes as long as all the rest of the call.
  if (receive->gpu) [[unlikely]]
    listen();
  return receive;
}

Status Engine::receive(MatchContext& context, int source, int tag, const Payload& payload) {
  Request* request = start_receive(context, source, tag, payload);
  wait(*request);
  const Status status = request->status;
  requests_.give_back(request);
  return status;
}

Status Engine::send_receive(const Target& target, const Payload& out, MatchContext& context, int source,
                            int tag, const Payload& in) {
  Request* receive = start_receive(context, source, tag, in);
  Request* send = start_send(target, out, SendMode::standard, Start::blocking);
  wait(*receive);
  const Status status = receive->status;
  requests_.give_back(receive);
  if (send) {
    wait(*send);
    free(send);
  }
  return status;
}

Request* Engine::start_matched_receive(UnexpectedMessage* message, const Payload& payload) {
  Request* receive = requests_.take(Request::Kind::receive);
  receive->source = message->source;
  receive->tag = message->tag;
  receive->payload = payload;
  receive->context = message->context;
  if (payload.type) receive->type = Ref<const Datatype>::share(payload.type);
  if (uses_cuda() && gpu() && !gpu_->try_prepare(*receive)) [[unlikely]] {
    matcher_.give_back(message);
    return receive;
  }
  accept(message, *receive);
  return receive;
}

void Engine::receive_inline(Peer& peer, const wire::CellHeader& header, const std::byte* bytes) {
  MatchContext& context = matcher_.context(header.context);
  if (!context.is_source(header.source)) [[unlikely]]
    return malformed(peer, "source beyond its group");
  peer.traffic.add_received(Protocol::eager_inline, header.size);
  if (Request* receive = context.match(header.source, header.tag)) [[likely]] {
    deliver(*receive, header.source, header.tag, bytes, header.size);
    return;
  }
  UnexpectedMessage* message = make_unexpected(peer, context, header.source, header.tag, header.size);
  copy_small(message->data, bytes, header.size);
  context.add(message);
}

UnexpectedMessage* Engine::make_unexpected(Peer& peer, MatchContext& context, int source, int tag,
                                           std::uint64_t bytes) {
  UnexpectedMessage* message = matcher_.take_message();
  message->source = source;
  message->tag = tag;
  message->bytes = message->arrived = bytes;
  message->content = UnexpectedMessage::Content::bytes;
  message->context = &context;
  message->peer = &peer;
  message->data = message->small;
  if (bytes > sizeof message->small) {
    message->large = std::make_unique_for_overwrite<std::byte[]>(bytes);
    message->data = message->large.get();
  }
  return message;
}

void Engine::receive_eager(Peer& peer, const wire::CellHeader& header, const wire::EagerHeader& eager,
                           const std::byte* bytes) {
  MatchContext& context = matcher_.context(header.context);
  if (!context.is_source(header.source)) [[unlikely]]
    return malformed(peer, "source beyond its group");
  if (eager.bytes < header.size || eager.bytes > wire::maximum_piece(region_.geometry())) [[unlikely]]
    return malformed(peer, "eager message longer than a ring carries");
  if (peer.incoming_left != 0) [[unlikely]]
    abandon_pieces(peer);
  peer.incoming_left = eager.bytes - header.size;
  const bool synchronous = header.flag == wire::CellFlag::synchronous;
  peer.traffic.add_received(Protocol::eager, eager.bytes);
  if (Request* receive = context.match(header.source, header.tag)) {
    if (synchronous) send_control(peer, wire::CellKind::acknowledge, &eager.sender, sizeof eager.sender);
    if (peer.incoming_left == 0) return deliver(*receive, header.source, header.tag, bytes, header.size);
    begin_pieces(peer, *receive, header.source, header.tag, eager.bytes);
    return add_piece(peer, bytes, header.size);
  }
  UnexpectedMessage* message = make_unexpected(peer, context, header.source, header.tag, eager.bytes);
  message->acknowledge = synchronous;
  message->offer.sender = eager.sender;
  message->arrived = header.size;
  std::memcpy(message->data, bytes, header.size);
  if (peer.incoming_left != 0) peer.incoming_message = message;
  context.add(message);
}

/// Prepares `receive` to be filled piece by piece.
void Engine::begin_pieces(Peer& peer, Request& receive, int source, int tag, std::uint64_t bytes) {
  receive.assign(nullptr, source, tag, bytes);
  if (const Payload& payload = receive.landing(); payload.type)
    receive.cursor = std::make_unique<Cursor>(*payload.type, payload.data, payload.count);
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
    finish(receive);
  }
}

void Engine::receive_more(Peer& peer, const std::byte* bytes, std::uint32_t size) {
  if (size > peer.incoming_left) [[unlikely]]
    return malformed(peer, "piece beyond the end of its message");
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
  malformed(peer, "message that ends before its last piece");
  peer.incoming_left = 0;
  if (UnexpectedMessage* message = std::exchange(peer.incoming_message, nullptr)) {
    std::memset(message->data + message->arrived, 0, message->bytes - message->arrived);
    message->arrived = message->bytes;
  }
  if (Request* receive = std::exchange(peer.incoming_receive, nullptr)) {
    receive->status.error = static_cast<int>(ErrorClass::intern);
    finish(*receive);
  }
}

void Engine::deliver(Request& receive, int source, int tag, const std::byte* bytes, std::uint64_t size) {
  receive.matched = true;
  receive.status.source = source;
  receive.status.tag = tag;
  receive.status.bytes = fill(receive.landing(), bytes, size);
  if (size > receive.payload.bytes) [[unlikely]]
    receive.status.error = static_cast<int>(ErrorClass::truncate);
  finish(receive);
}

/// Continues with `receive` what began to arrive as `message`.
void Engine::adopt_pieces(UnexpectedMessage& message, Request& receive) {
  Peer& peer = *message.peer;
  peer.incoming_message = nullptr;
  begin_pieces(peer, receive, message.source, message.tag, message.bytes);
  add_piece(peer, message.data, static_cast<std::uint32_t>(message.arrived));
}

/// Completes or begins a receive with a message that came before it, and consumes the message.
void Engine::accept(UnexpectedMessage* message, Request& receive) {
  switch (message->content) {
    case UnexpectedMessage::Content::bytes:
      if (message->acknowledge && !message->peer->is_local())
        remote_->acknowledge(*message->peer, message->offer.sender);
      else if (message->acknowledge)
        send_control(*message->peer, wire::CellKind::acknowledge, &message->offer.sender,
                     sizeof message->offer.sender);
      if (message->arrived < message->bytes)
        adopt_pieces(*message, receive);
      else
        deliver(receive, message->source, message->tag, message->data, message->bytes);
      break;
    case UnexpectedMessage::Content::offer:
      begin_rendezvous(*message->peer, receive, message->source, message->tag, message->offer);
      break;
    case UnexpectedMessage::Content::remote_offer:
      remote_->fetch(*message->peer, receive, message->source, message->tag,
                     {message->bytes, message->offer.address, message->offer.sender});
      break;
    case UnexpectedMessage::Content::remote_chunks:
      remote_->fetch_chunks(*message->peer, receive, message->source, message->tag, message->bytes,
                            message->offer.sender);
      break;
    case UnexpectedMessage::Content::gpu_offer: {
      GpuSource from;
      std::memcpy(&from, message->large.get(), sizeof from);
      begin_gpu_offer(*message->peer, receive, message->source, message->tag,
                      {.sender = message->offer.sender,
                       .bytes = message->bytes,
                       .offset = from.memory.memory.offset,
                       .number = 0,
                       .latency_bound = message->offer.by_gpu},
                      from);
      break;
    }
    case UnexpectedMessage::Content::self:
      deliver_from_self(receive, *message);
      break;
  }
  matcher_.give_back(message);
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

}  // namespace

Request* Engine::send_to_self(const Target& target, const Payload& payload, SendMode mode) {
  MatchContext& context = matcher_.context(target.context);
  peer(rank_).traffic.add_sent(Protocol::local, payload.bytes);
  if (Request* receive = context.match(target.source, target.tag)) {
    receive->matched = true;
    receive->status = {
        .source = target.source, .tag = target.tag, .bytes = copy_payload(payload, receive->landing())};
    if (payload.bytes > receive->payload.bytes)
      receive->status.error = static_cast<int>(ErrorClass::truncate);
    finish(*receive);
    return nullptr;
  }
  UnexpectedMessage* message = matcher_.take_message();
  message->source = target.source;
  message->tag = target.tag;
  message->bytes = message->arrived = payload.bytes;
  message->context = &context;
  message->peer = &peer(rank_);
  Request* send = nullptr;
  if (payload.bytes <= eager_limit_ && mode == SendMode::standard) {
    message->content = UnexpectedMessage::Content::bytes;
    message->data = message->small;
    if (payload.bytes > sizeof message->small) {
      message->large = std::make_unique_for_overwrite<std::byte[]>(payload.bytes);
      message->data = message->large.get();
    }
    pack_into(payload, message->data);
  } else {
    send = make_send(target, payload, mode);
    send->peer = message->peer;
    message->content = UnexpectedMessage::Content::self;
    message->local_send = send;
  }
  context.add(message);
  return send;
}

void Engine::deliver_from_self(Request& receive, UnexpectedMessage& message) {
  Request& send = *message.local_send;
  receive.matched = true;
  receive.status = {
      .source = message.source, .tag = message.tag, .bytes = copy_payload(send.payload, receive.landing())};
  if (send.payload.bytes > receive.payload.bytes)
    receive.status.error = static_cast<int>(ErrorClass::truncate);
  finish(send);
  finish(receive);
}

}  // namespace isthmus
