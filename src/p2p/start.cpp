// How sends and receives begin: which protocol a message goes by, and the shortest ones themselves.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "p2p/active/cpu_destination.hpp"
#include "p2p/engine.hpp"
#include "p2p/message/pack.hpp"
#include "p2p/protocol/cpu/envelope.hpp"

namespace isthmus {
namespace {

/// For who measures: from here to its end the rank is in MPI, and then it goes back to its program.
class Visit {
 public:
  explicit Visit(LivePlans& plans) noexcept : plans_(plans) { plans.come(); }
  ~Visit() { plans_.leave(); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  LivePlans& plans_;
};

Target target_of(const Request& send) {
  return {send.peer->id, send.context_id, send.source, send.tag};
}

bool is_eager(Eagerness eagerness, const Peer& peer, std::uint64_t bytes) noexcept {
  return eagerness == Eagerness::by_limit ? bytes <= peer.eager_limit : eagerness == Eagerness::eager;
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
    if (start == Start::nonblocking) {
      const Visit visit(plans_);
      listen();
    }
    return *sent;
  }
  const MemoryKind memory = std::get<MemoryKind>(tried);
  if (memory == MemoryKind::pageable || payload.bytes <= wire::inline_capacity ||
      target.peer == links_.rank())
    return start_cpu_send(target, payload, mode, start);
  return start_send_slow(links_.peer(target.peer), target, payload, mode, start, memory);
}

Request* Engine::start_cpu_send(const Target& target, const Payload& payload, SendMode mode, Start start) {
  if (target.peer == links_.rank()) return self_.send(target, payload, mode);
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
  Eagerness eagerness = Eagerness::by_limit;
  if (eager_plans_.decides(payload.bytes, start, payload.bytes <= peer.eager_limit) &&
      mode == SendMode::standard && memory == MemoryKind::pageable) {
    const std::optional<bool> goes_eagerly = eager_plans_.goes_on(peer.id, payload.bytes, start);
    if (!goes_eagerly) [[unlikely]]
      return start_measured(peer, target, payload, start);
    eagerness = *goes_eagerly ? Eagerness::eager : Eagerness::rendezvous;
  }
  const bool traced = payload.bytes > wire::inline_capacity;
  if (peer.out.open() && is_eager(eagerness, peer, payload.bytes) && mode == SendMode::standard &&
      peer.waiting.empty() && eager_.emit(peer, target, payload, nullptr)) {
    links_.after_publish(peer);
    // Not before: the receiver would wait for it. 1 KiB one way, the least of 31 runs: 461 ns counted before,
    // 446 after, 443 not counted.
    if (traced) links_.trace_send(peer, start);
    return nullptr;
  }
  Request* const send =
      start_request(peer, target, payload, {.mode = mode, .memory = memory, .eagerness = eagerness});
  if (traced) links_.trace_send(peer, start);
  return send;
}

Request* Engine::start_request(Peer& peer, const Target& target, const Payload& payload, const Going& going) {
  Request* send = completion_.make_send(target, payload, going.mode);
  send->peer = &peer;
  send->memory = going.memory;
  send->eagerness = going.eagerness;
  send->told.number = going.mark;
  try {
    start_offer(peer, *send);
  } catch (...) {
    completion_.drop(send);
    throw;
  }
  return send;
}

/// One whose length leaves a choice, where that is to be asked for. Apart, so that others pay a comparison
/// and no more, and few instructions stand between their copies (`EagerPlans::goes_on`).
[[gnu::noinline]] Request* Engine::start_measured(Peer& peer, const Target& target, const Payload& payload,
                                                  Start start) {
  const EagerPlans::Fate fate = measured_fate(peer, payload.bytes, start);
  Request* send = nullptr;
  if (peer.out.open() && fate.is_eager && peer.waiting.empty() &&
      emit_eagerly(peer, target, payload, fate.mark))
    links_.after_publish(peer);
  else
    send = start_request(peer, target, payload,
                         {.mode = SendMode::standard,
                          .memory = MemoryKind::pageable,
                          .eagerness = fate.is_eager ? Eagerness::eager : Eagerness::rendezvous,
                          .mark = fate.mark});
  links_.trace_send(peer, start);
  return send;
}

/// How a message goes whose length leaves a choice, by what earlier ones took.
EagerPlans::Fate Engine::measured_fate(const Peer& peer, std::uint64_t bytes, Start start) noexcept {
  return eager_plans_.begin({.to = peer.id,
                             .nearness = links_.nearness(peer),
                             .bytes = bytes,
                             .start = start,
                             .assumed_eager = bytes <= peer.eager_limit,
                             .report = eager_plans_.awaits(peer.id) ? peer.out.report() : 0});
}

bool Engine::emit_eagerly(Peer& peer, const Target& target, const Payload& payload, std::uint16_t mark) {
  const std::uint64_t began = eager_plans_.write_begins(mark);
  if (!eager_.emit(peer, target, payload, nullptr, mark)) return false;
  eager_plans_.wrote(mark, began, EagerMessages::pieces_of(payload.bytes));
  return true;
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
  const bool goes_eagerly = is_eager(send.eagerness, peer, send.payload.bytes);
  if (!goes_eagerly || send.synchronous || send.gpu) claims_.offer(send.cookie());
  if (send.gpu) [[unlikely]] {
    if (!gpu_.made()->emit(peer, send, target)) return false;
    send.unsent = false;
    return true;
  }
  if (goes_eagerly) {
    const bool is_emitted = send.synchronous ? eager_.emit(peer, target, send.payload, &send)
                                             : emit_eagerly(peer, target, send.payload, send.told.number);
    if (!is_emitted) return false;
    send.unsent = false;
    if (!send.synchronous) completion_.finish(send);
    return true;
  }
  const std::uint64_t began = eager_plans_.write_begins(send.told.number);
  if (!rendezvous_.try_offer(peer, send, target)) return false;
  eager_plans_.wrote(send.told.number, began, 1);
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
  if (receive->gpu) [[unlikely]] {
    const Visit visit(plans_);
    listen();
  }
  return receive;
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
      if (message->content() == UnexpectedMessage::Content::self)
        completion_.finish(*std::get<Request*>(message->where));
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
    return eager_.receive_early(peer, context, header, bytes);
  peer.traffic.add_received(Protocol::eager_inline, header.size);
  if (Request* receive = context.match(header.source, header.tag)) [[likely]] {
    deliver(completion_, *receive, header.source, header.tag, bytes, header.size);
    return;
  }
  UnexpectedMessage* message = unexpected_.make(peer, header.source, header.tag, header.size);
  copy_small(message->data, bytes, header.size);
  unexpected_.keep(context, header.context, message);
}

/// Completes or begins a receive with a message that came before it, and consumes the message.
void Engine::accept(UnexpectedMessage* message, Request& receive) {
  switch (message->content()) {
    case UnexpectedMessage::Content::bytes:
      eager_.accept(*message, receive);
      break;
    case UnexpectedMessage::Content::offer: {
      const Visit visit(plans_);
      rendezvous_.start(*message->peer, receive, message->source, message->tag,
                        std::get<wire::SendOffer>(message->where), message->mark);
      break;
    }
    case UnexpectedMessage::Content::remote_offer: {
      const Visit visit(plans_);
      network_->fetch(*message->peer, receive, message->source, message->tag,
                      {message->bytes, std::get<network::OfferId>(message->where), message->sender});
      break;
    }
    case UnexpectedMessage::Content::remote_chunks: {
      const Visit visit(plans_);
      network_->fetch_chunks(*message->peer, receive, message->source, message->tag, message->bytes,
                             message->sender);
      break;
    }
    case UnexpectedMessage::Content::gpu_offer: {
      const Visit visit(plans_);
      const GpuSource& from = *std::get<std::unique_ptr<GpuSource>>(message->where);
      gpu_offers_.begin(*message->peer, receive, message->source, message->tag,
                        {.sender = message->sender,
                         .bytes = message->bytes,
                         .offset = from.memory.memory.offset,
                         .number = 0,
                         .latency_bound = from.latency_bound},
                        from);
      break;
    }
    case UnexpectedMessage::Content::self:
      self_.deliver(receive, *message);
      break;
  }
  unexpected_.release(message);
}

}  // namespace isthmus
