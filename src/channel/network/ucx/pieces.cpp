// Long messages over TCP: the receiver asks for them a piece at a time. UCX's own rendezvous hands all of a
// message to the kernel at once, whose buffers are longer than caches: 1 MiB one way between two network
// namespaces 3.3 GB/s, in pieces 5.9; 16 MiB 2.3 and 3.3.
#include <algorithm>
#include <cstring>
#include <utility>

#include "channel/network/ucx/port.hpp"

namespace isthmus::network {
namespace {

/// An active message of this size comes in one go (RX_SEG_SIZE in config.cpp).
constexpr std::uint64_t piece_bytes = Pace::piece;

template <class Value>
std::span<const std::byte> bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

Result<Port::Progress> UcxPort::offer_in_pieces(Peer& peer, std::span<const std::byte> header,
                                                std::span<const std::byte> bytes, Token token) {
  const wire::PieceOffer what{.id = next_outgoing_++, .bytes = bytes.size()};
  // Nothing leaves whose answer could not be given.
  operations_.make_room(2);
  const auto entry = outgoing_.emplace(what.id, nullptr).first;
  Operation& head = operations_.take();
  ucs_status_ptr_t request = post(peer, head, {.sequence = peer.sent++, .kind = wire::PortKind::offer},
                                  header, bytes_of(what), {}, UCP_AM_SEND_FLAG_EAGER);
  if (UCS_PTR_IS_ERR(request)) {
    outgoing_.erase(entry);
    operations_.give_back(head);
    doom(peer, {}, ucs_status_string(UCS_PTR_STATUS(request)));
    return std::unexpected(gone(peer));
  }
  if (request == nullptr) {
    operations_.give_back(head);
  } else {
    head.kind = Operation::Kind::control;
    operations_.add_pending(head);
  }
  Operation& offer = operations_.take();
  offer.port = this;
  offer.peer = peer.rank;
  offer.kind = Operation::Kind::offer;
  offer.token = token;
  offer.data = bytes.data();
  offer.bytes = bytes.size();
  offer.offer = what.id;
  offer.pieces = 0;
  offer.done = false;
  operations_.add_pending(offer);
  entry->second = &offer;
  return Progress::pending;
}

bool UcxPort::receive_pieces(Peer& peer, const wire::PortMessage& message, std::span<const std::byte> data) {
  if (message.envelope.kind == wire::PortKind::piece) {
    wire::PieceHead head{};
    return wire::read_exactly(message.inlined, head) && take_piece(peer, head, data);
  }
  if (!data.empty()) return false;
  if (message.envelope.kind == wire::PortKind::want) {
    wire::PieceWant want{};
    if (!wire::read_exactly(message.inlined, want)) return false;
    send_piece(peer, want);
    return true;
  }
  wire::PieceDone what{};
  if (!wire::read_exactly(message.inlined, what)) return false;
  const auto found = outgoing_.find(what.offer);
  if (found == outgoing_.end() || found->second->peer != peer.rank) return false;
  Operation& offer = *found->second;
  offer.done = true;
  if (offer.pieces == 0) end_offer(offer);
  return true;
}

void UcxPort::send_piece(Peer& peer, const wire::PieceWant& want) {
  const auto found = outgoing_.find(want.offer);
  if (found == outgoing_.end() || found->second->peer != peer.rank || found->second->done || !peer.endpoint ||
      want.bytes == 0 || want.bytes > piece_bytes || want.offset > found->second->bytes ||
      want.bytes > found->second->bytes - want.offset)
    return malformed(&peer, "a wish for a piece that there is not");
  Operation& offer = *found->second;
  Operation& piece = operations_.take();
  piece.parent = &offer;
  const wire::PieceHead head{.fetch = want.fetch, .offset = want.offset};
  ucs_status_ptr_t request =
      post(peer, piece, {.sequence = 0, .kind = wire::PortKind::piece}, {}, bytes_of(head),
           {offer.data + want.offset, want.bytes}, UCP_AM_SEND_FLAG_EAGER);
  if (UCS_PTR_IS_PTR(request)) {
    piece.kind = Operation::Kind::piece;
    ++offer.pieces;
    operations_.add_pending(piece);
    return;
  }
  operations_.give_back(piece);
  if (UCS_PTR_IS_ERR(request)) doom(peer, {}, ucs_status_string(UCS_PTR_STATUS(request)));
}

void UcxPort::end_offer(Operation& offer) {
  // First: where the owner cannot be told, the offer ends with its peer.
  report(offer, nullptr);
  outgoing_.erase(offer.offer);
  operations_.remove_pending(offer);
  operations_.give_back(offer);
}

void UcxPort::fetch_in_pieces(const Offer& offer, std::span<std::byte> to, Token token) {
  Peer& peer = this->peer(offer.peer);
  if (!peer.endpoint) {
    ready_.push_back(
        {token, Error(ErrorClass::intern, "a message is fetched from a rank that is not connected")});
    return;
  }
  // What has been asked for comes, so nothing fails from here on.
  operations_.make_room(Pace::most_pieces);
  const std::uint64_t id = next_piece_fetch_++;
  PieceFetch& fetch =
      piece_fetches_
          .emplace(id, PieceFetch{.peer = offer.peer, .token = token, .offer = offer.pieces, .to = to})
          .first->second;
  fetch.learning = peer.pace.is_learning() && to.size() >= Pace::short_piece + piece_bytes;
  if (fetch.learning)
    ask_for(id, fetch, Pace::short_piece);
  else
    ask_for_more(id, fetch);
}

/// Asks for whole pieces until as many are under way as pay.
void UcxPort::ask_for_more(std::uint64_t id, PieceFetch& fetch) {
  const std::uint64_t window = peer(fetch.peer).pace.window();
  while (fetch.asked < fetch.to.size() && fetch.asked - fetch.arrived + piece_bytes <= window)
    ask_for(id, fetch, piece_bytes);
}

void UcxPort::ask_for(std::uint64_t id, PieceFetch& fetch, std::uint64_t bytes) {
  const wire::PieceWant want{.offer = fetch.offer,
                             .fetch = id,
                             .offset = fetch.asked,
                             .bytes = std::min(bytes, fetch.to.size() - fetch.asked)};
  fetch.asked += want.bytes;
  if (fetch.learning) fetch.asked_at = Clock::now();
  control(peer(fetch.peer), wire::PortKind::want, bytes_of(want));
}

/// A piece has come, and no other was under way: what that tells of the way.
void UcxPort::learn(Peer& peer, PieceFetch& fetch, std::uint64_t bytes) {
  const double seconds = std::chrono::duration<double>(Clock::now() - fetch.asked_at).count();
  if (bytes < piece_bytes) return peer.pace.short_took(seconds);
  peer.pace.piece_took(seconds);
  fetch.learning = false;
}

bool UcxPort::take_piece(Peer& peer, const wire::PieceHead& head, std::span<const std::byte> data) {
  const auto found = piece_fetches_.find(head.fetch);
  if (found == piece_fetches_.end() || found->second.peer != peer.rank) return false;
  PieceFetch& fetch = found->second;
  if (data.empty() || head.offset > fetch.asked || data.size() > fetch.asked - head.offset ||
      data.size() > fetch.to.size() - fetch.arrived)
    return false;
  operations_.make_room(Pace::most_pieces);  // before anything changes
  // Before the copy, so that the sender works meanwhile.
  fetch.arrived += data.size();
  if (fetch.learning) learn(peer, fetch, data.size());
  if (fetch.learning)
    ask_for(head.fetch, fetch, piece_bytes);
  else
    ask_for_more(head.fetch, fetch);
  std::memcpy(fetch.to.data() + head.offset, data.data(), data.size());
  if (fetch.arrived < fetch.to.size()) return true;
  say_done(peer, fetch.offer);
  if (!closing_) {
    ++delivered_;
    // Where the owner cannot be told, the fetch ends with its peer.
    events_->fetched(fetch.token, nullptr);
  }
  piece_fetches_.erase(head.fetch);
  return true;
}

void UcxPort::say_done(Peer& peer, std::uint64_t offer) {
  const wire::PieceDone what{.offer = offer};
  control(peer, wire::PortKind::done, bytes_of(what));
}

void UcxPort::control(Peer& peer, wire::PortKind kind, std::span<const std::byte> what) {
  if (!peer.endpoint || peer.lost) return;  // it will hear of the loss
  Operation& operation = operations_.take();
  ucs_status_ptr_t request =
      post(peer, operation, {.sequence = 0, .kind = kind}, {}, what, {}, UCP_AM_SEND_FLAG_EAGER);
  if (UCS_PTR_IS_PTR(request)) {
    operation.kind = Operation::Kind::control;
    operations_.add_pending(operation);
    return;
  }
  operations_.give_back(operation);
  if (UCS_PTR_IS_ERR(request)) doom(peer, {}, ucs_status_string(UCS_PTR_STATUS(request)));
}

void UcxPort::drop_pieces_of(const Peer& peer, Ends& ends) {
  std::erase_if(piece_fetches_, [&](const auto& each) {
    if (each.second.peer != peer.rank) return false;
    ends.fetches.push_back(each.second.token);
    return true;
  });
  for (const Token token : ends.fetches) {
    ++delivered_;
    events_->fetched(token, &ends.error);
  }
  for (const auto& [id, offer] : outgoing_)
    if (offer->peer == peer.rank) ends.operations.push_back(offer);
  for (Operation* offer : ends.operations) {
    report(*offer, &ends.error);
    offer->given_up = offer->done = true;
    if (offer->pieces == 0) end_offer(*offer);
  }
}

}  // namespace isthmus::network
