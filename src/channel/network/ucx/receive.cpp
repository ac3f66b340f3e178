#include <new>
#include <utility>

#include "base/log.hpp"
#include "channel/network/ucx/port.hpp"
#include "channel/network/ucx/status.hpp"

namespace isthmus::network {
namespace {

std::span<const std::byte> bytes_of(const void* data, std::size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}

}  // namespace

ucs_status_t UcxPort::on_message(void* port, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* param) {
  UcxPort& self = *static_cast<UcxPort*>(port);
  const auto head = bytes_of(header, header_bytes);
  try {
    return self.receive(head, data, bytes, param->recv_attr);
  } catch (const std::bad_alloc&) {
    const auto message = wire::read_port_message(head, header_limit);
    if (message && message->envelope.token == self.token_) self.doom_for_memory(message->envelope.sender);
    return UCS_OK;
  }
}

ucs_status_t UcxPort::receive(std::span<const std::byte> head, void* data, std::size_t bytes,
                              std::uint64_t attributes) {
  const bool offered = (attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  // What is not delivered: UCX_OK lets it go, and completes an offer at its sender.
  if (closing_) return UCS_OK;
  const auto message = wire::read_port_message(head, header_limit);
  if (!message || message->envelope.token != token_ || message->envelope.sender >= self_.ranks) {
    malformed(nullptr, "a message that is not of this job");
    return UCS_OK;
  }
  Peer& peer = this->peer(message->envelope.sender);
  if (peer.lost) return UCS_OK;
  const bool in_pieces = message->envelope.kind == wire::PortKind::offer;
  if (message->envelope.kind != wire::PortKind::message && !in_pieces) {
    const bool good = !offered && receive_pieces(peer, *message, bytes_of(data, bytes));
    if (!good) malformed(&peer, "a piece of a message, or a word about one, that does not fit");
    return UCS_OK;
  }
  wire::PieceOffer pieces{};
  if (in_pieces && !wire::read_exactly(message->inlined, pieces)) {
    malformed(&peer, "an offer that is none");
    return UCS_OK;
  }
  if (message->envelope.inlined > 0 && (offered || bytes > 0)) {
    malformed(&peer, "a message of two kinds at once");
    return UCS_OK;
  }
  const auto content = in_pieces                       ? std::span<const std::byte>{}
                       : message->envelope.inlined > 0 ? message->inlined
                       : offered                       ? std::span<const std::byte>{}
                                                       : bytes_of(data, bytes);
  using Turn = Sequence<Early>::Turn;
  switch (peer.sequence.turn(message->envelope.sequence)) {
    case Turn::wrong:
      malformed(&peer, "a message with a number that was there before, or is far ahead");
      return UCS_OK;
    case Turn::early:
      take_early(peer, message->envelope.sequence,
                 {.header = {message->header.begin(), message->header.end()},
                  .bytes = {content.begin(), content.end()},
                  .descriptor = offered ? data : nullptr,
                  .offered = in_pieces ? pieces.bytes : bytes,
                  .pieces = pieces.id});
      break;
    case Turn::now:
      peer.sequence.advance();
      if (offered || in_pieces) {
        offer(peer, message->header,
              {.header = {},
               .bytes = {},
               .descriptor = offered ? data : nullptr,
               .offered = in_pieces ? pieces.bytes : bytes,
               .pieces = pieces.id});
      } else {
        ++delivered_;
        events_->arrived(peer.rank, message->header, content);
      }
      // This message has been taken, whatever becomes of those behind it.
      try {
        catch_up(peer);
      } catch (const std::bad_alloc&) {
        doom_for_memory(peer.rank);
      }
      break;
  }
  return offered ? UCS_INPROGRESS : UCS_OK;
}

void UcxPort::take_early(Peer& peer, std::uint64_t number, Early early) {
  peer.sequence.keep(number, std::move(early));
}

/// So that declining all offers, and one more, needs no memory.
void UcxPort::make_room_to_decline() {
  const std::size_t declinable = declined_.size() + offers_.size() + 1;
  if (declined_.capacity() < declinable) declined_.reserve(2 * declinable);
}

void UcxPort::offer(Peer& peer, std::span<const std::byte> header, const Early& offered) {
  const OfferId id = next_offer_++;
  make_room_to_decline();
  offers_.emplace(id, Offer{peer.rank, offered.descriptor, offered.offered, offered.pieces});
  ++delivered_;
  try {
    events_->offered(peer.rank, header, offered.offered, id);
  } catch (...) {
    // UCX lets go of its part when it hears that the message is not kept.
    offers_.erase(id);
    throw;
  }
}

void UcxPort::catch_up(Peer& peer) {
  for (;;) {
    make_room_to_decline();
    auto early = peer.sequence.take();
    if (!early) return;
    peer.sequence.advance();
    if (early->descriptor || early->pieces != 0) {
      try {
        offer(peer, early->header, *early);
      } catch (...) {
        if (early->descriptor) declined_.push_back(early->descriptor);
        throw;
      }
    } else {
      ++delivered_;
      events_->arrived(peer.rank, early->header, early->bytes);
    }
  }
}

void UcxPort::malformed(Peer* peer, const char* what) {
  bool& complained = peer ? peer->complained : complained_of_strangers_;
  if (!warn_ || std::exchange(complained, true)) return;
  warn(std::string(what) + " has come over the network from " +
       (peer ? "rank " + std::to_string(peer->rank) : "somebody") + " and is ignored, as all further ones");
}

/// Nothing is begun whose end could not be told.
void UcxPort::make_room_for_fetch() {
  if (ready_.size() == ready_.capacity()) ready_.reserve(2 * ready_.size() + 4);
  operations_.make_room();
}

void UcxPort::fetch(OfferId id, std::span<std::byte> to, Token token) {
  make_room_for_fetch();
  const auto found = offers_.find(id);
  if (found == offers_.end()) {
    ready_.push_back({token, Error(ErrorClass::intern, "there is no such offer")});
    return;
  }
  const Offer offer = found->second;
  const Peer& peer = this->peer(offer.peer);
  if (to.empty() || to.size() > offer.bytes || peer.lost) {
    decline(id);
    std::optional<Error> error;
    if (peer.lost)
      error = gone(peer);
    else if (!to.empty())
      error = Error(ErrorClass::intern, "more is fetched than is offered");
    ready_.push_back({token, std::move(error)});
    return;
  }
  if (offer.pieces != 0)
    fetch_in_pieces(offer, to, token);
  else
    fetch_whole(offer, to, token, UCS_MEMORY_TYPE_HOST);
  offers_.erase(id);
}

bool UcxPort::try_fetch_to_gpu(OfferId id, std::span<std::byte> to, Token token) {
  const auto found = offers_.find(id);
  if (!why_not_gpu().empty() || found == offers_.end()) return false;
  const Offer offer = found->second;
  // A processor puts pieces together, and takes the beginning of what is longer.
  if (offer.pieces != 0 || to.size() != offer.bytes || this->peer(offer.peer).lost) return false;
  make_room_for_fetch();
  fetch_whole(offer, to, token, UCS_MEMORY_TYPE_CUDA);
  offers_.erase(id);
  return true;
}

/// By UCX, in one operation.
void UcxPort::fetch_whole(const Offer& offer, std::span<std::byte> to, Token token,
                          ucs_memory_type_t memory) {
  std::unique_ptr<PrefixType> prefix;
  if (to.size() < offer.bytes) prefix = PrefixType::make(to, offer.bytes);
  Operation& operation = operations_.take();
  operation.port = this;
  operation.peer = offer.peer;
  operation.kind = Operation::Kind::fetch;
  operation.token = token;
  operation.bytes = offer.bytes;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.memory_type = memory;
  param.cb.recv_am = on_fetched;
  param.user_data = &operation;
  param.datatype = ucp_dt_make_contig(1);
  const bool has_prefix = prefix != nullptr;
  if (has_prefix) param.datatype = prefix->get();
  operation.prefix = std::move(prefix);
  ucs_status_ptr_t request =
      ucp_am_recv_data_nbx(worker_.get(), offer.descriptor, to.data(), has_prefix ? 1 : to.size(), &param);
  if (UCS_PTR_IS_PTR(request)) {
    operations_.add_pending(operation);
    return;
  }
  operation.prefix.reset();
  operations_.give_back(operation);
  std::optional<Error> error;
  if (UCS_PTR_IS_ERR(request)) error = not_reached(offer.peer, UCS_PTR_STATUS(request));
  ready_.push_back({token, std::move(error)});
}

void UcxPort::on_fetched(void* request, ucs_status_t status, std::size_t bytes, void* user) {
  auto& operation = *static_cast<Operation*>(user);
  ucp_request_free(request);
  // A peer may send less than it has offered.
  const bool short_of = status == UCS_OK && bytes < operation.bytes;
  operation.port->finish_safely(operation, short_of ? UCS_ERR_MESSAGE_TRUNCATED : status);
}

void UcxPort::decline(OfferId id) {
  const auto found = offers_.find(id);
  if (found == offers_.end()) return;
  if (found->second.pieces != 0)
    say_done(this->peer(found->second.peer), found->second.pieces);
  else
    declined_.push_back(found->second.descriptor);
  offers_.erase(found);
}

}  // namespace isthmus::network
