#include "p2p/protocol/cpu/eager.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/copy.hpp"
#include "p2p/active/cpu_destination.hpp"
#include "p2p/message/pack.hpp"
#include "p2p/protocol/cpu/envelope.hpp"

namespace isthmus {
namespace {

/// Messages longer than this go in pieces of it, so that the receiver copies out while the sender still
/// copies in. A piece costs the journey of a cache line, which is more than it hides where the cores are far
/// from each other. In pieces of 2, 4, 8 and 16 KiB, us one way: 4 KiB 1.10, 0.88, 0.87, 0.87; 16
/// KiB 3.4, 1.9, 1.6, 1.5, fresh data 3.3, 2.1, 2.0, 2.1; between virtual cores of one core 4 KiB 0.25, 0.28,
/// 0.28, 0.28, 16 KiB 0.64, 0.62, 0.49, 0.50 (EPYC, medians of 9 runs in turn).
constexpr std::uint32_t piece_bytes = 8192;

/// Messages up to this length go through the byte ring also where they are answered: the next one's lines are
/// fetched ahead there, which takes about as long. Us one way, ring and place: 1 KiB 0.14, 0.13 (a bare
/// loop); 2 KiB 0.30, 0.24, 16 KiB 2.4, 0.93; between cores far from each other 2 KiB 1.16, 0.70, 16
/// KiB 9.0, 2.1 (EPYC 9004 of 2 virtual cores, medians of 7 to 48 runs in turn).
constexpr std::uint32_t most_in_ring = RingWriter::most_fetched;

Probed ask_of_inline(const PairFacts& facts) noexcept {
  if (!facts.is_neighbour()) return std::unexpected(no_neighbour);
  return Serves{.up_to = wire::inline_capacity};
}

Probed ask_of_eager(const PairFacts& facts) noexcept {
  if (!facts.is_neighbour()) return std::unexpected(no_neighbour);
  return Serves{.up_to = facts.eager_limit};
}

/// Room for a message's first piece, which `header` announces; null where there is none.
std::byte* reserve_first(RingWriter& out, wire::CellHeader& header) noexcept {
  std::byte* const to = out.reserve_first(header.size);
  if (out.starts_over()) header.kind = wire::CellKind::eager_over;
  return to;
}

/// Copies a payload piece by piece.
class PieceCopier {
 public:
  explicit PieceCopier(const Payload& payload) : from_(payload.data) {
    if (payload.type) cursor_.emplace(*payload.type, payload.data, payload.count);
  }
  /// The next `bytes`.
  void copy(std::byte* to, std::uint32_t bytes) {
    if (cursor_) {
      cursor_->pack({to, bytes});
    } else {
      std::memcpy(to, from_, bytes);
      from_ += bytes;
    }
  }

 private:
  const std::byte* from_;
  std::optional<Cursor> cursor_;
};

}  // namespace

constinit const Probe EagerMessages::probe_of_inline{Protocol::eager_inline, ChannelId::shm,
                                                     Cost::in_envelope, &ask_of_inline};
constinit const Probe EagerMessages::probe_of_eager{Protocol::eager, ChannelId::shm, Cost::with_envelope,
                                                    &ask_of_eager};

bool EagerMessages::emit(Peer& peer, const Target& target, const Payload& payload, const Request* synchronous,
                         std::uint16_t mark) {
  if (!peer.out.has_cell()) return false;
  if (payload.bytes <= wire::inline_capacity && !synchronous) {
    std::array<std::byte, wire::inline_capacity> packed;
    pack_into(payload, packed.data());
    peer.out.publish(header_of(target, payload.bytes, wire::CellKind::eager_inline), packed.data(),
                     payload.bytes);
    peer.traffic.add_sent(Protocol::eager_inline, payload.bytes);
    return true;
  }
  wire::CellHeader header = header_of(target, payload.bytes, wire::CellKind::eager, mark);
  wire::EagerHeader eager{.bytes = payload.bytes, .sender = 0, .cells_read = peer.in.cells_read()};
  if (synchronous) {
    header.flag = wire::CellFlag::synchronous;
    eager.sender = synchronous->cookie();
  }
  // No more pieces than half of the cells, so that they always find room in the end.
  const bool in_pieces = payload.bytes > piece_bytes && !links_.peers_sleep() &&
                         payload.bytes <= std::uint64_t{piece_bytes} * (links_.region().geometry().cells / 2);
  if (payload.bytes > most_in_ring && peer.place.takes(payload.bytes) && peer.out.is_answered()) {
    const std::uint32_t most = in_pieces ? piece_bytes : static_cast<std::uint32_t>(payload.bytes);
    if (!emit_placed(peer, header, eager, payload, most)) return false;
  } else if (in_pieces) {
    if (!emit_pieces(peer, header, eager, payload)) return false;
  } else {
    std::byte* to = reserve_first(peer.out, header);
    if (!to) return false;
    pack_into(payload, to);
    peer.out.publish_reserved(header, &eager, sizeof eager);
  }
  links_.wrote_piece(peer, payload.bytes);
  peer.traffic.add_sent(Protocol::eager, payload.bytes);
  return true;
}

std::uint32_t EagerMessages::pieces_of(std::uint64_t bytes) noexcept {
  return static_cast<std::uint32_t>((bytes + piece_bytes - 1) / piece_bytes);
}

bool EagerMessages::emit_pieces(Peer& peer, wire::CellHeader header, const wire::EagerHeader& eager,
                                const Payload& payload) {
  const std::uint32_t pieces = pieces_of(payload.bytes);
  if (!peer.out.has_room(pieces, payload.bytes, piece_bytes)) return false;
  PieceCopier copier(payload);
  for (std::uint64_t offset = 0; offset < payload.bytes; offset += piece_bytes) {
    header.size = static_cast<std::uint32_t>(std::min<std::uint64_t>(piece_bytes, payload.bytes - offset));
    copier.copy(offset == 0 ? reserve_first(peer.out, header) : peer.out.reserve(header.size), header.size);
    peer.out.publish_reserved(header, &eager, sizeof eager);
    header.kind = wire::CellKind::eager_more;
  }
  return true;
}

bool EagerMessages::emit_placed(Peer& peer, wire::CellHeader header, const wire::EagerHeader& eager,
                                const Payload& payload, std::uint32_t most) {
  const auto pieces = static_cast<std::uint32_t>((payload.bytes + most - 1) / most);
  if (!peer.out.has_room(pieces, 0, 0)) return false;
  header.kind = wire::CellKind::eager_placed;
  PieceCopier copier(payload);
  std::byte* const place = peer.place.give();
  for (std::uint64_t offset = 0; offset < payload.bytes; offset += most) {
    header.size = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, payload.bytes - offset));
    copier.copy(place + offset, header.size);
    peer.out.publish(header, &eager, sizeof eager);
    header.kind = wire::CellKind::placed_more;
  }
  return true;
}

void EagerMessages::receive_early(Peer& peer, MatchContext& context, const wire::CellHeader& header,
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

void EagerMessages::arrived(const ArrivedCell& cell) {
  Peer& peer = cell.peer;
  const wire::CellHeader& header = cell.header;
  const auto eager = cell.payload<wire::EagerHeader>();
  const std::byte* const bytes = cell.piece;
  peer.out.heard(eager.cells_read);
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
    if (left == 0) {
      if (header.mark == 0) [[likely]]
        return deliver(completion_, *receive, header.source, header.tag, bytes, header.size);
      return deliver_marked(cell, *receive);
    }
    receive->told = reports_.begin(header.mark);
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
  message->sender = eager.sender;
  message->arrived = header.size;
  if (header.mark == 0) [[likely]] {
    std::memcpy(message->data, bytes, header.size);
  } else {
    message->mark = header.mark;
    message->spent = 0;
    const std::uint64_t began = reports_.now(header.mark);
    std::memcpy(message->data, bytes, header.size);
    note_spent(*message, began);
  }
  if (left != 0) peer.incoming_message = message;  // first: who listens may give it back at once
  unexpected_.keep(context, header.context, message);
  begin();
}

/// Prepares `receive` to be filled piece by piece. Where there is no memory for that it has failed, and no
/// receive takes the pieces.
void EagerMessages::begin_pieces(Peer& peer, Request& receive, int source, int tag, std::uint64_t bytes) {
  receive.assign(nullptr, source, tag, bytes);
  const Payload* const landing = cpu_destination_of(receive);
  if (!landing) return;
  if (landing->type) receive.cursor.emplace(*landing->type, landing->data, landing->count);
  peer.incoming_receive = &receive;
}

void EagerMessages::add_piece(Peer& peer, const std::byte* bytes, std::uint32_t size) {
  Request& receive = *peer.incoming_receive;
  const std::uint64_t taken = std::min<std::uint64_t>(size, receive.limit - receive.moved);
  if (receive.cursor)
    receive.cursor->unpack({bytes, taken});
  else if (taken != 0)
    std::memcpy(receive.payload.data + receive.moved, bytes, taken);
  receive.moved += taken;
  if (peer.incoming_left == 0) {
    peer.incoming_receive = nullptr;
    reports_.end(peer, receive.told);
    completion_.finish(receive);
  }
}

void EagerMessages::more_arrived(const ArrivedCell& cell) {
  Peer& peer = cell.peer;
  const std::byte* const bytes = cell.piece;
  const std::uint32_t size = cell.header.size;
  if (size > peer.incoming_left) [[unlikely]]
    return links_.malformed(peer, "piece beyond the end of its message");
  peer.incoming_left -= size;
  if (peer.incoming_receive) return add_piece(peer, bytes, size);
  UnexpectedMessage* message = peer.incoming_message;
  if (!message) return;
  const std::uint64_t began = reports_.now(message->mark);
  std::memcpy(message->data + message->arrived, bytes, size);
  note_spent(*message, began);
  message->arrived += size;
  if (peer.incoming_left == 0) peer.incoming_message = nullptr;
}

void EagerMessages::placed_arrived(const ArrivedCell& cell) {
  SharedPlace& place = cell.peer.place;
  const auto eager = cell.payload<wire::EagerHeader>();
  if (!place.begin(eager.bytes) || !place.piece(cell.header.size)) [[unlikely]]
    return links_.malformed(cell.peer, "message in a place that is not its own");
  arrived({cell.peer, cell.header, cell.cell, place.piece(cell.header.size)});
  place.was_read(cell.header.size);
}

void EagerMessages::more_placed_arrived(const ArrivedCell& cell) {
  SharedPlace& place = cell.peer.place;
  const std::byte* const piece = place.piece(cell.header.size);
  if (!piece) [[unlikely]]
    return links_.malformed(cell.peer, "piece beyond the end of its message");
  more_arrived({cell.peer, cell.header, cell.cell, piece});
  place.was_read(cell.header.size);
}

/// Ends a message that its sender has not ended, before the next one takes its place.
void EagerMessages::abandon_pieces(Peer& peer) {
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

void EagerMessages::accept(UnexpectedMessage& message, Request& receive) {
  if (message.is_awaited) unexpected_.acknowledge(message);
  if (message.mark == 0 && message.arrived == message.bytes) [[likely]]
    return deliver(completion_, receive, message.source, message.tag, message.data, message.bytes);
  accept_marked_or_part(message, receive);
}

/// Apart, as the next, so that others pay a comparison and no more.
[[gnu::noinline]] void EagerMessages::accept_marked_or_part(UnexpectedMessage& message, Request& receive) {
  const BatchMark mark = reports_.begin(message.mark, message.spent);
  if (message.arrived < message.bytes) {
    receive.told = mark;
    return adopt_pieces(message, receive);
  }
  deliver(completion_, receive, message.source, message.tag, message.data, message.bytes);
  reports_.end(*message.peer, mark);
}

/// All of a message that is marked.
[[gnu::noinline]] void EagerMessages::deliver_marked(const ArrivedCell& cell, Request& receive) {
  const BatchMark mark = reports_.begin(cell.header.mark);
  deliver(completion_, receive, cell.header.source, cell.header.tag, cell.piece, cell.header.size);
  reports_.end(cell.peer, mark);
}

/// What it took to keep a piece of a message that is marked.
void EagerMessages::note_spent(UnexpectedMessage& message, std::uint64_t began) noexcept {
  if (began == 0) return;
  const std::uint64_t now = reports_.now(message.mark);
  if (now > began) message.spent += now - began;
}

/// Continues with `receive` what began to arrive as `message`.
void EagerMessages::adopt_pieces(UnexpectedMessage& message, Request& receive) {
  Peer& peer = *message.peer;
  if (peer.lost) return completion_.end_lost(receive, message.source, message.tag);
  peer.incoming_message = nullptr;
  begin_pieces(peer, receive, message.source, message.tag, message.bytes);
  if (!peer.incoming_receive) return completion_.finish(receive);
  add_piece(peer, message.data, static_cast<std::uint32_t>(message.arrived));
}

}  // namespace isthmus
