#include "p2p/protocol/cpu/rendezvous.hpp"

#include <array>
#include <limits>
#include <new>
#include <span>

#include "p2p/protocol/cpu/envelope.hpp"

namespace isthmus {
namespace {

/// What the receiver is to know of a send's memory. Pinned memory a GPU copies by itself. Pageable memory the
/// driver copies to its own first, while the caller waits, and about as fast as `Staging` (64 KiB to and from
/// a GPU 20 us by the driver, 15 by `Staging`; 64 MiB 11 GB/s to a GPU and 16 from it, 12.5 by `Staging`; 2 x
/// H200).
wire::SendMemory told_of(const Request& send) noexcept {
  if (send.payload.type) return wire::SendMemory::plain;
  if (send.memory == MemoryKind::managed) return wire::SendMemory::managed;
  return send.memory == MemoryKind::pinned ? wire::SendMemory::pinned : wire::SendMemory::plain;
}

SendersMemory memory_of(const wire::SendOffer& offer) noexcept {
  if (offer.memory == wire::SendMemory::managed) return SendersMemory::managed;
  return offer.allocation != 0 ? SendersMemory::allocated : SendersMemory::any;
}

}  // namespace

bool Rendezvous::try_offer(Peer& peer, Request& send, const Target& target) {
  const bool is_readable = !send.payload.type && send.memory != MemoryKind::managed;
  const std::byte* const data = is_readable ? send.payload.data : nullptr;
  const std::uint32_t allocation = data ? around_.memories.announce(peer, data, send.payload.bytes) : 0;
  if (!peer.out.has_cell()) return false;
  around_.access.probe_if_possible(peer);
  const wire::SendOffer offer{.sender = send.cookie(),
                              .bytes = send.payload.bytes,
                              .address = reinterpret_cast<std::uint64_t>(data),
                              .memory = told_of(send),
                              .reads_only = static_cast<std::uint16_t>(peer.push ? 0 : 1),
                              .allocation = allocation};
  peer.out.publish(header_of(target, 0, wire::CellKind::ready_to_send, send.told.number), &offer,
                   sizeof offer);
  send.unsent = false;
  return true;
}

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
  if (*matched) return start(peer, **matched, header.source, header.tag, offer, header.mark);
  constexpr auto content = UnexpectedMessage::Content::offer;
  const UnexpectedMessages::Envelope envelope{header.context, header.source, header.tag, offer.bytes};
  const UnexpectedMessages::Awaited awaited{.content = content, .sender = offer.sender, .is_claimable = true};
  if (around_.unexpected.refuse(peer, context, envelope, awaited)) return;
  around_.unexpected.keep_offer(peer, context, envelope, awaited, offer, header.mark);
}

void Rendezvous::start(Peer& peer, Request& receive, int source, int tag, const wire::SendOffer& offer,
                       std::uint16_t mark) {
  if (peer.lost) return around_.completion.end_lost(receive, source, tag);
  receive.assign(&peer, source, tag, offer.bytes);
  around_.completion.carry(receive);
  if (receive.limit == 0) {
    tell_done(peer, offer.sender);
    return around_.completion.finish(receive);
  }
  try {
    if (receive.gpu) [[unlikely]] {
      if (around_.gpu_offers.begin_to_gpu(peer, receive, offer)) return;
      static_cast<void>(receive.cpu_destination());
    }
  } catch (const std::bad_alloc&) {
    // It has been matched, so it ends here, and its sender goes on.
    return around_.completion.end_without_memory(peer, receive, offer.sender);
  }
  // A managed or a GPU's memory is not what is compared.
  const bool is_compared = !receive.gpu && offer.memory == wire::SendMemory::plain;
  receive.told = around_.reports.begin(is_compared ? mark : std::uint16_t{0});
  around_.memories.try_reach(peer);
  for (const Way& way : peer.plan(memory_of(offer)).serving(receive.limit)) {
    const Protocol protocol = measured(way.protocol, peer, receive, offer);
    if (try_start(protocol, peer, receive, offer)) return;
    // What cannot come so after all comes another way, from the start.
    around_.plans.given_up(receive.mark);
  }
  around_.links.malformed(peer, "offer of a message that no protocol serves");
  around_.completion.end_in_error(receive, ErrorClass::intern);
}

Protocol Rendezvous::measured(Protocol planned, const Peer& peer, Request& receive,
                              const wire::SendOffer& offer) noexcept {
  const bool is_measured = planned == Protocol::split || planned == Protocol::pull;
  if (!is_measured || offer.address == 0) return planned;
  const bool may_split = SplitCopies::suits(peer, receive, offer);
  const LongWay way = planned == Protocol::split && may_split ? LongWay::split : LongWay::pull;
  if (!around_.plans.on() || receive.gpu) return protocol_of(way);
  constexpr std::array all{LongWay::stream, LongWay::pull, LongWay::split};
  const std::span possible(all.data(), may_split ? all.size() : all.size() - 1);
  return protocol_of(
      around_.plans.begin(receive.mark, around_.links.nearness(peer), receive.limit, way, possible));
}

bool Rendezvous::try_start(Protocol way, Peer& peer, Request& receive, const wire::SendOffer& offer) {
  if (way == Protocol::stream) {
    around_.streams.start(peer, receive, offer.sender);
    return true;
  }
  if (way == Protocol::gpu_staged) {
    around_.gpu_offers.stage_managed(peer, receive, offer.sender);
    return true;
  }
  if (way == Protocol::split)
    return SplitCopies::suits(peer, receive, offer) &&
           around_.splits.try_start(peer, receive, offer.sender, offer.address);
  PeerMemory* const memory = around_.memories.carrier_of(way);
  const std::uint64_t began = around_.plans.work_begins();
  if (!memory || !memory->reaches(peer, offer, receive.limit) || !read_all(*memory, peer, receive, offer))
    return false;
  LivePlans::worked(receive.mark, around_.plans.work_since(began));
  count_received(peer, receive, way, receive.limit);
  around_.plans.ended(receive.mark, receive.limit);
  around_.reports.end(peer, receive.told);
  tell_done(peer, offer.sender);
  around_.completion.finish(receive);
  return true;
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
