#include "p2p/protocol/cpu/rendezvous.hpp"

#include <array>
#include <limits>
#include <new>
#include <span>

namespace isthmus {

/// A send of this rank is over at its receiver.
void Rendezvous::ended(const ArrivedCell& cell) {
  if (Request* const send = around_.completion.find_unanswered(cell.peer, cell.payload<wire::Cookie>()))
    around_.completion.finish(*send);
}

void Rendezvous::offered(const ArrivedCell& cell) {
  Peer& peer = cell.peer;
  const wire::CellHeader& header = cell.header;
  const auto offer = cell.payload<wire::SendOffer>();
  MatchContext& context = around_.matcher.context(header.context);
  if (!context.is_source(header.source) && !around_.unexpected.may_be_early(peer, context, header.source))
    return;
  if (offer.bytes > std::numeric_limits<std::int64_t>::max())
    return around_.links.malformed(peer, "offer beyond all memory");
  const auto matched =
      around_.unexpected.match_claimed(peer, context, header.source, header.tag, offer.sender);
  if (!matched) return;
  if (*matched) return start(peer, **matched, header.source, header.tag, offer);
  constexpr auto content = UnexpectedMessage::Content::offer;
  const UnexpectedMessages::Envelope envelope{header.context, header.source, header.tag, offer.bytes};
  if (around_.unexpected.refuse(peer, context, envelope,
                                {.content = content, .sender = offer.sender, .is_claimable = true}))
    return;
  UnexpectedMessage& message = around_.unexpected.keep_offer(peer, context, envelope, content);
  message.offer = offer;
  message.is_claimable = true;
}

void Rendezvous::start(Peer& peer, Request& receive, int source, int tag, const wire::SendOffer& offer) {
  if (peer.lost) return around_.completion.end_lost(receive, source, tag);
  receive.assign(&peer, source, tag, offer.bytes);
  if (receive.limit == 0) {
    tell_done(peer, offer.sender);
    return around_.completion.finish(receive);
  }
  try {
    if (receive.gpu) [[unlikely]] {
      if (around_.gpu_offers.begin_to_gpu(peer, receive, offer)) return;
      static_cast<void>(receive.cpu_destination());
    }
    // Managed memory is for its own process to load from and to store to. The kernel copies between processes
    // from and to pages that it has looked up before: what CUDA moves meanwhile is lost, or is not what was
    // there (2 x H200: 6 of 52 runs with 100 messages under way).
    if (offer.memory == wire::SendMemory::managed)
      return around_.gpu_offers.staging().request(peer, receive, offer.sender, false);
  } catch (const std::bad_alloc&) {
    // It has been matched, so it ends here, and its sender goes on.
    return around_.completion.end_without_memory(peer, receive, offer.sender);
  }
  for (PeerMemory* const memory : around_.memories.ways()) {
    const Plan* const plan = memory->reach(peer, offer, receive.limit);
    if (!plan) continue;
    const Protocol protocol = way_of(peer, receive, offer, *plan);
    if (protocol == Protocol::stream) break;
    if (protocol == Protocol::split) {
      if (around_.splits.try_start(peer, receive, offer.sender, offer.address)) return;
      around_.plans.given_up(receive.mark);
    }
    if (read_all(*memory, peer, receive, offer)) {
      count_received(peer, receive, protocol == Protocol::split ? Protocol::pull : protocol, receive.limit);
      around_.plans.ended(receive.mark, receive.limit);
      tell_done(peer, offer.sender);
      return around_.completion.finish(receive);
    }
    // What cannot be read after all comes another way, from the start.
    around_.plans.given_up(receive.mark);
  }
  around_.streams.start(peer, receive, offer.sender);
}

Protocol Rendezvous::way_of(Peer& peer, Request& receive, const wire::SendOffer& offer,
                            const Plan& plan) noexcept {
  const Protocol assumed = plan.step(receive.limit).protocol;
  if (assumed != Protocol::split && assumed != Protocol::pull) return assumed;
  // A sender that has no part in it could not end its send when that is cancelled (`Engine::cancel`).
  const bool may_split =
      peer.push && offer.reads_only == 0 && !receive.payload.type && receive.memory != MemoryKind::managed;
  const LongWay way = assumed == Protocol::split && may_split ? LongWay::split : LongWay::pull;
  if (!around_.plans.on() || receive.gpu) return protocol_of(way);
  constexpr std::array all{LongWay::stream, LongWay::pull, LongWay::split};
  const std::span possible(all.data(), may_split ? all.size() : all.size() - 1);
  return protocol_of(
      around_.plans.begin(receive.mark, around_.links.nearness(peer), receive.limit, way, possible));
}

/// True: all bytes of a matched receive have been read from the sender's memory. False: they cannot be.
bool Rendezvous::read_all(PeerMemory& memory, Peer& peer, Request& receive, const wire::SendOffer& offer) {
  try {
    return memory.read(peer, offer, receive.payload, receive.limit).has_value();
  } catch (const std::bad_alloc&) {
    return false;  // no memory for the reason
  }
}

}  // namespace isthmus
