// Messages that come before their receives, and the memory that they take.
//
// That memory has a limit (`Settings::memory_limit`), because nothing in the protocol keeps a sender of
// short messages from running ahead: an envelope takes more memory here than in the ring. When it is passed,
// a peer whose messages take more than its share of it is held back: its ring is not read, fills, and the
// peer's sends wait, as standard sends may (MPI 5.0, section 3.4), while the peer goes on with all else.
//
// No program that the standard promises to end hangs by that. A ring brings messages for receives and probes
// of this rank, and answers to its sends. A peer is held back only while none of these waits for it
// (`awaits`), and each look for progress asks again. So whatever this rank waits for does not depend on that
// ring, but on a third rank; and if that one waits for the held peer, then for something that the peer does
// besides its sends to this rank, which are as good as not yet received: it makes progress on all else
// meanwhile. What is left is a program that needs its standard sends to be buffered, which the standard calls
// unsafe. It is told what happens.
//
// A rank that does wait for something behind the flood reads on, up to four times the limit. Then what waits
// for that peer fails, rather than this process or another for want of memory.
//
// Peers on other hosts cannot be held back here: who fills four times the limit is given up.
#include "p2p/active/unexpected.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "p2p/message/context_ids.hpp"
#include "p2p/message/gpu_part.hpp"
#include "p2p/message/held_up.hpp"

namespace isthmus {
namespace {

/// Memory that comes between two looks for who sends too many: requests are gone through for it.
constexpr std::uint64_t flood_step = 64 * 1024;

/// Of a context that has not been opened: its place in a table.
constexpr std::uint64_t early_cost = 96;

/// What another host offers, by the port's name; 0 where it offers nothing.
network::OfferId offer_of(const UnexpectedMessage& message) noexcept {
  const auto* const offer = std::get_if<network::OfferId>(&message.where);
  return offer ? *offer : 0;
}

}  // namespace

bool UnexpectedMessages::may_be_early(Peer& peer, const MatchContext& context, int source) const {
  if (matcher_.is_unopened(context) && static_cast<std::uint32_t>(source) < links_.size()) return true;
  links_.malformed(peer, "source beyond its group");
  return false;
}

UnexpectedMessage* UnexpectedMessages::make(Peer& peer, int source, int tag, std::uint64_t bytes) {
  std::unique_ptr<std::byte[]> large;
  if (bytes > sizeof UnexpectedMessage::small) large = std::make_unique_for_overwrite<std::byte[]>(bytes);
  UnexpectedMessage* message = matcher_.take_message();
  message->source = source;
  message->tag = tag;
  message->bytes = message->arrived = bytes;
  message->peer = &peer;
  message->data = message->small;
  if (large) {
    message->large = std::move(large);
    message->data = message->large.get();
    message->cost = bytes;
  }
  return message;
}

void UnexpectedMessages::keep(MatchContext& context, ContextId id, UnexpectedMessage* message) {
  message->cost += sizeof *message + (matcher_.is_unopened(context) ? early_cost : 0);
  // Nobody could be held back, and nobody is to be given up for it later.
  if (is_resting_) [[unlikely]]
    message->cost = 0;
  Peer& peer = *message->peer;
  peer.unexpected += message->cost;
  memory_ += message->cost;
  // A listener consumes it.
  const bool is_kept = !context.is_listened_to();
  try {
    matcher_.keep(context, id, message);
  } catch (...) {
    release(message);
    throw;
  }
  if (memory_ > flood_looked_at_ && is_kept) [[unlikely]] {
    try {
      look_at_flood(peer, *message);
    } catch (const std::bad_alloc&) {
      flood_looked_at_ = memory_;  // with the next one again; this one is kept
    }
  }
}

/// All is filled in before it is kept: who listens may give it back at once.
void UnexpectedMessages::keep_offer(Peer& peer, MatchContext& context, const Envelope& envelope,
                                    const Awaited& awaited, UnexpectedMessage::Where where,
                                    std::uint16_t mark) {
  UnexpectedMessage& message = *matcher_.take_message();
  message.source = envelope.source;
  message.tag = envelope.tag;
  message.bytes = envelope.bytes;
  message.where = std::move(where);
  message.mark = mark;
  message.peer = &peer;
  message.sender = awaited.sender;
  message.is_awaited = awaited.is_awaited;
  message.is_claimable = awaited.is_claimable;
  if (message.content() == UnexpectedMessage::Content::gpu_offer) message.cost = sizeof(GpuSource);
  keep(context, envelope.context, &message);
}

void UnexpectedMessages::bring_in(UnexpectedMessage& message, std::unique_ptr<std::byte[]> bytes) noexcept {
  message.where = UnexpectedMessage::Here{};
  message.large = std::move(bytes);
  message.data = message.large.get();
  message.arrived = message.bytes;
  message.is_awaited = false;
  message.mark = 0;
}

void UnexpectedMessages::release(UnexpectedMessage* message) {
  // What else comes of it is dropped.
  if (message->peer->incoming_message == message) message->peer->incoming_message = nullptr;
  message->peer->unexpected -= message->cost;
  memory_ -= message->cost;
  flood_looked_at_ = std::max(limit(), std::min(flood_looked_at_, memory_ + flood_step));
  matcher_.give_back(message);
}

void UnexpectedMessages::discard(UnexpectedMessage* message) {
  if (message->content() == UnexpectedMessage::Content::remote_offer)
    network_->decline(*message->peer, offer_of(*message));
  if (message->content() == UnexpectedMessage::Content::remote_chunks)
    network_->decline_chunks(*message->peer, message->sender);
  release(message);
}

void UnexpectedMessages::consume(MatchContext& context, UnexpectedMessage& message) {
  context.remove(&message);
  if (message.peer && message.peer->incoming_message == &message) message.peer->incoming_message = nullptr;
  release(&message);
}

void UnexpectedMessages::decline_rejected() {
  while (UnexpectedMessage* message = matcher_.first_rejected()) {
    decline(*message);
    matcher_.remove_rejected(message);
    release(message);
  }
}

void UnexpectedMessages::acknowledge(const UnexpectedMessage& message) {
  answer(*message.peer, {.content = message.content(), .sender = message.sender});
}

void UnexpectedMessages::decline(UnexpectedMessage& message) {
  if (message.content() == UnexpectedMessage::Content::self)
    return completion_.end_in_error(*std::get<Request*>(message.where), ErrorClass::revoked);
  Peer& peer = *message.peer;
  if (message.is_claimable && !claims_.claim(peer.slot, message.sender)) return;
  message.is_claimable = false;
  answer(peer, {.content = message.content(),
                .sender = message.sender,
                .offer = offer_of(message),
                .is_awaited = message.is_awaited});
}

bool UnexpectedMessages::refuse(Peer& peer, const MatchContext& context, const Envelope& envelope,
                                const Awaited& awaited) {
  const bool is_unwanted = matcher_.is_unopened(context) ? over_.is_over(envelope.context)
                                                         : context.is_broken(envelope.source, envelope.tag);
  if (!is_unwanted) [[likely]]
    return false;
  if (!awaited.is_awaited) return true;
  // What has been claimed must be answered.
  prepare_answer(peer);
  if (!awaited.is_claimable || claims_.claim(peer.slot, awaited.sender)) answer(peer, awaited);
  return true;
}

void UnexpectedMessages::answer(Peer& peer, const Awaited& awaited) {
  if (!awaited.is_awaited) return;
  switch (awaited.content) {
    case UnexpectedMessage::Content::bytes:
      if (!peer.is_local()) return network_->acknowledge(peer, awaited.sender);
      return links_.send_control(peer, wire::CellKind::acknowledge, &awaited.sender, sizeof awaited.sender);
    case UnexpectedMessage::Content::offer:
    case UnexpectedMessage::Content::gpu_offer:
      return links_.send_control(peer, wire::CellKind::share_done, &awaited.sender, sizeof awaited.sender);
    case UnexpectedMessage::Content::remote_offer:
      return network_->decline(peer, awaited.offer);
    case UnexpectedMessage::Content::remote_chunks:
      return network_->decline_chunks(peer, awaited.sender);
    case UnexpectedMessage::Content::self:
      return;  // who sends to itself waits for nobody else
  }
}

// --- what their senders may take back

std::optional<Request*> UnexpectedMessages::match_claimed(Peer& peer, MatchContext& context, int source,
                                                          int tag, wire::Cookie sender) {
  Request* const receive = matcher_.is_unopened(context) ? nullptr : context.would_match(source, tag);
  if (!receive) return nullptr;
  links_.prepare_answer(peer);
  if (!claims_.claim(peer.slot, sender)) return std::nullopt;
  context.withdraw(receive);
  resume(*receive);
  return receive;
}

void UnexpectedMessages::prepare_answer(const UnexpectedMessage& message) {
  if (message.is_awaited) prepare_answer(*message.peer);
}

void UnexpectedMessages::prepare_answer(Peer& peer) {
  if (peer.is_local())
    links_.prepare_answer(peer);
  else
    network_->prepare_answer(peer);
}

UnexpectedMessage* UnexpectedMessages::find(MatchContext& context, int source, int tag) {
  while (UnexpectedMessage* message = context.find(source, tag)) {
    if (!message->is_claimable || claims_.is_offered(message->peer->slot, message->sender)) return message;
    context.remove(message);
    discard(message);
  }
  return nullptr;
}

UnexpectedMessage* UnexpectedMessages::take(MatchContext& context, int source, int tag) {
  while (UnexpectedMessage* message = context.find(source, tag)) {
    prepare_answer(*message);
    context.remove(message);
    if (!message->is_claimable) return message;
    if (claims_.claim(message->peer->slot, message->sender)) {
      message->is_claimable = false;
      return message;
    }
    discard(message);
  }
  return nullptr;
}

/// At the end of the job, of all but what this class sends to itself. Peers that wait for an answer still get
/// none.
void UnexpectedMessages::discard_all() {
  const auto is_over = [](const UnexpectedMessage& message) {
    return message.content() == UnexpectedMessage::Content::bytes && !message.is_awaited &&
           message.arrived == message.bytes;
  };
  matcher_.for_each([&](MatchContext& context) {
    if (ContextIds::is_internal(context.id())) return;
    for (UnexpectedMessage* message = context.first_unexpected(); message != nullptr;) {
      UnexpectedMessage* const next = message->by_arrival.next;
      if (is_over(*message)) {
        context.remove(message);
        discard(message);
      }
      message = next;
    }
  });
  while (UnexpectedMessage* message = matcher_.take_early())
    discard(message);
}

// --- peers that send too many

void UnexpectedMessages::look_at_flood(Peer& peer, const UnexpectedMessage& newest) {
  flood_looked_at_ = memory_ + flood_step;
  if (ending_) {
    if (newest.content() == UnexpectedMessage::Content::bytes) discard_all();
    return;
  }
  if (peer.is_local()) {
    if (!may_read(peer)) hold(peer);
  } else if (memory_ > most() && !peer.held) {
    peer.held = true;
    network_->give_up(peer.id, Error(ErrorClass::no_mem,
                                     "it has sent more messages that are not received than there is memory "
                                     "for (four times ISTHMUS_UNEXPECTED_LIMIT)"));
  }
}

/// Whether the ring of a peer is to be read.
bool UnexpectedMessages::may_read(Peer& peer) {
  const std::uint64_t limit = links_.settings().unexpected_limit;
  // Who has been held back goes on when there is some room, not a message at a time.
  const std::uint64_t room = peer.held ? limit / 4 : 0;
  if (ending_ || is_resting_ || memory_ + room <= limit ||
      peer.unexpected <= limit / links_.job().members.size())
    return true;
  if (!awaits(peer)) return false;
  if (memory_ <= most()) return true;
  fail_waiting(peer);
  return false;
}

/// Whether anything that this rank waits for may come through the ring of a peer.
bool UnexpectedMessages::awaits(const Peer& peer) const {
  if (peer.incoming_receive != nullptr) return true;
  if (probed.context != nullptr && probed.context->may_come_from(probed.source, peer.id)) return true;
  return completion_.pool().any_of([&peer](const Request& request) {
    if (request.complete) return false;
    if (request.kind == Request::Kind::send) return request.peer == &peer && !request.unsent;
    if (request.kind != Request::Kind::receive) return false;
    return request.matched ? request.peer == &peer : request.context->may_come_from(request.source, peer.id);
  });
}

void UnexpectedMessages::hold(Peer& peer) {
  links_.schedule(peer);
  peer.held = true;
  peer.round = 0;
  if (std::exchange(warned_.held, true) || !links_.settings().warn) return;
  warn("rank " + std::to_string(links_.rank()) + " has " + std::to_string(memory_) +
       " bytes of messages that it has not received, most of them from rank " + std::to_string(peer.id) +
       ", whose further messages wait until it receives some (ISTHMUS_UNEXPECTED_LIMIT)");
}

bool UnexpectedMessages::lets_go_on(Peer& peer) {
  if (!may_read(peer)) return false;
  peer.held = false;
  peer.round = links_.region().geometry().cells;
  return true;
}

/// Ends with an error what can only end by reading on: receives, a probe, and sends without an answer. Data
/// of such a send that the peer has matched may still be read, which its program has to bear in mind if it
/// goes on.
void UnexpectedMessages::fail_waiting(Peer& peer) {
  std::vector<Request*> waiting;
  waiting.reserve(
      completion_.pool().living());  // so that none is forgotten that has been taken out of matching
  matcher_.for_each([&](MatchContext& context) {
    for (Request* receive : context.withdraw_from(peer.id))
      waiting.push_back(receive);
  });
  completion_.pool().for_each([&](Request& request) {
    if (request.complete || request.peer != &peer || request.gpu) return;
    const bool is_unanswered =
        request.kind == Request::Kind::send && !request.unsent && request.transfer == Request::Transfer::none;
    const bool is_streamed = request.kind == Request::Kind::receive && request.matched &&
                             request.transfer == Request::Transfer::stream;
    if (is_unanswered || is_streamed) waiting.push_back(&request);
    if (is_unanswered) static_cast<void>(claims_.take_back(request.cookie()));
  });
  const bool probes = probed.context != nullptr && probed.context->may_come_from(probed.source, peer.id);
  if (probes) probed = {.failed = true};
  if (links_.settings().warn && (probes || !waiting.empty()) && !std::exchange(warned_.failed, true))
    warn("rank " + std::to_string(links_.rank()) + " waits for something behind " +
         std::to_string(peer.unexpected) + " bytes of messages from rank " + std::to_string(peer.id) +
         " that it does not receive, and gives up: there is no memory for more (four times "
         "ISTHMUS_UNEXPECTED_LIMIT)");
  for (Request* request : waiting) {
    request->status.error = static_cast<int>(ErrorClass::no_mem);
    completion_.finish(*request);
  }
}

}  // namespace isthmus
