#include "p2p/protocol/cpu/fragment_stream.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace isthmus {
namespace {

/// Bytes of one fragment of a stream unless a setting says otherwise: small enough that both sides copy at
/// the same time through cache, large enough to hide the cell.
constexpr std::uint32_t default_fragment = 16 * 1024;

/// The same where ranks share cores, so that both sides seldom copy at the same time. 8 ranks on 2 cores, 64
/// KiB to each of 6 neighbours: 98 us instead of 114.
constexpr std::uint32_t shared_fragment = 32 * 1024;

/// Fragments for which a receiver that may sleep is rung once: the bell waits until all that was copied has
/// left the store buffer.
constexpr unsigned fragments_a_bell = 4;

Probed ask_of_stream(const PairFacts& facts) noexcept {
  if (!facts.is_neighbour()) return std::unexpected(no_neighbour);
  if (facts.is_managed()) return std::unexpected(of_another_process);
  return Serves{};
}

}  // namespace

constinit const Probe FragmentStreams::probe{Protocol::stream, ChannelId::shm, Cost::two_copies,
                                             &ask_of_stream};

void FragmentStreams::start(Peer& peer, Request& receive, wire::Cookie sender) {
  if (receive.payload.type)
    receive.cursor.emplace(*receive.payload.type, receive.payload.data, receive.payload.count);
  receive.transfer = Request::Transfer::stream;
  count_received(peer, receive, Protocol::stream, receive.limit);
  const wire::ReceiveOffer answer{.sender = sender,
                                  .receiver = receive.cookie(),
                                  .bytes = receive.limit,
                                  .cells_read = peer.in.cells_read()};
  links_.send_control(peer, wire::CellKind::clear_to_send, &answer, sizeof answer);
}

void FragmentStreams::asked_for(const ArrivedCell& cell) {
  Peer& peer = cell.peer;
  const auto offer = cell.payload<wire::ReceiveOffer>();
  Request* const send = completion_.find_unanswered(peer, offer.sender);
  if (!send) return;
  if (send->gpu) return links_.malformed(peer, "asks for a stream of a send that is in GPU memory");
  if (offer.bytes > send->payload.bytes) return links_.malformed(peer, "asks for more than was offered");
  links_.prepare_answer(peer);
  peer.out.heard(offer.cells_read);
  send->transfer = Request::Transfer::stream;
  send->peer_cookie = offer.receiver;
  send->limit = offer.bytes;
  if (send->payload.type) send->cursor.emplace(*send->payload.type, send->payload.data, send->payload.count);
  peer.streaming.push_back(send);
  links_.schedule(peer);
  if (send->released) buffer_rest(*send);
}

unsigned FragmentStreams::push(Peer& peer) {
  unsigned happened = 0;
  unsigned not_rung_for = 0;
  std::uint64_t began = plans_.work_begins();
  const std::uint32_t usual = links_.peers_sleep() ? shared_fragment : default_fragment;
  const std::uint32_t fragment_bytes = links_.settings().fragment != 0 ? links_.settings().fragment : usual;
  while (Request* send = peer.streaming.front()) {
    const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        {fragment_bytes, wire::maximum_piece(links_.region().geometry()) / 2, send->limit - send->moved}));
    if (!peer.out.has_cell()) break;
    const bool is_first = send->moved == 0;
    std::byte* to = is_first ? peer.out.reserve_first(bytes) : peer.out.reserve(bytes);
    if (!to) break;
    if (is_first) peer.out.map_ahead(to, send->limit);
    if (send->cursor)
      send->cursor->pack({to, bytes});
    else if (bytes != 0)
      std::memcpy(to, send->payload.data + send->moved, bytes);
    const std::uint64_t worked = plans_.work_since(began);
    began += worked;
    const wire::FragmentHeader fragment{
        .receiver = send->peer_cookie, .offset = send->moved, .worked = worked};
    const wire::CellHeader header{
        .context = 0,
        .source = 0,
        .tag = 0,
        .size = bytes,
        .kind = peer.out.starts_over() ? wire::CellKind::fragment_over : wire::CellKind::fragment,
        .flag = wire::CellFlag::none,
        .mark = 0};
    peer.out.publish_reserved(header, &fragment, sizeof fragment);
    if (++not_rung_for == fragments_a_bell) {
      links_.after_publish(peer);
      not_rung_for = 0;
    }
    send->moved += bytes;
    ++happened;
    if (send->moved == send->limit) {
      peer.traffic.add_sent(Protocol::stream, send->limit);
      peer.streaming.remove(send);
      completion_.finish(*send);
    }
  }
  if (not_rung_for != 0) links_.after_publish(peer);
  return happened;
}

void FragmentStreams::arrived(const ArrivedCell& cell) {
  Peer& peer = cell.peer;
  const std::byte* const bytes = cell.piece;
  const std::uint32_t size = cell.header.size;
  const auto fragment = cell.payload<wire::FragmentHeader>();
  Request* receive = completion_.find(fragment.receiver);
  if (!receive || receive->kind != Request::Kind::receive || receive->peer != &peer || receive->complete ||
      receive->transfer != Request::Transfer::stream || fragment.offset != receive->moved ||
      size > receive->limit - receive->moved)
    return links_.malformed(peer, "fragment that no receive waits for");
  if (fragment.offset == 0) peer.in.map_ahead(bytes, receive->limit);
  const std::uint64_t began = plans_.work_begins();
  if (receive->cursor)
    receive->cursor->unpack({bytes, size});
  else
    std::memcpy(receive->payload.data + receive->moved, bytes, size);
  LivePlans::worked(receive->mark, fragment.worked);
  LivePlans::worked(receive->mark, plans_.work_since(began));
  receive->moved += size;
  if (receive->moved != receive->limit) return;
  plans_.ended(receive->mark, receive->limit);
  reports_.end(peer, receive->told);
  completion_.finish(*receive);
}

void FragmentStreams::buffer_rest(Request& send) noexcept try {
  // As long as the message, because fragments say where in it they belong. What has left is never touched.
  auto copy = std::make_unique_for_overwrite<std::byte[]>(send.limit);
  Request* const rest = completion_.make_send({send.peer->id, send.context_id, send.source, send.tag},
                                              Payload::of(copy.get(), send.limit), SendMode::standard);
  const std::uint64_t left = send.limit - send.moved;
  if (send.cursor)
    send.cursor->pack({copy.get() + send.moved, left});
  else if (left != 0)
    std::memcpy(copy.get() + send.moved, send.payload.data + send.moved, left);
  rest->peer = send.peer;
  rest->transfer = Request::Transfer::stream;
  rest->peer_cookie = send.peer_cookie;
  rest->moved = send.moved;
  rest->limit = send.limit;
  rest->staging = std::move(copy);
  rest->orphan = true;
  send.peer->streaming.remove(&send);
  send.peer->streaming.push_back(rest);
  completion_.finish(send);
} catch (const std::bad_alloc&) {
  return;  // the send goes on
}

}  // namespace isthmus
