#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "channel/network/ucx/active_message.hpp"
#include "channel/network/ucx/port.hpp"
#include "channel/network/ucx/status.hpp"

namespace isthmus::network {
namespace {

/// Short messages that UCX has not sent yet and of which the owner has heard that they are complete: 0.6 MiB.
constexpr std::size_t buffered_limit = 1024;

}  // namespace

Result<UcxPort::Peer*> UcxPort::addressee(PeerId rank, std::span<const std::byte> header) {
  if (rank >= self_.ranks || !peers_[rank] || (!peers_[rank]->endpoint && !peers_[rank]->lost))
    return fail(ErrorClass::intern, "rank " + std::to_string(rank) + " is not connected");
  if (peers_[rank]->lost) return std::unexpected(gone(*peers_[rank]));
  if (header.size() > header_limit) return fail(ErrorClass::intern, "a header is too long");
  return peers_[rank].get();
}

/// What UCX has said of a message that was posted: where it has refused it, the peer is given up.
Result<> UcxPort::took(Peer& peer, Operation& operation, ucs_status_ptr_t request) {
  if (UCS_PTR_IS_PTR(request)) {
    operations_.add_pending(operation);
    return {};
  }
  operations_.give_back(operation);
  if (request == nullptr) return {};
  // Its number is missing for good: there is nothing to go on with.
  doom(peer, {}, ucs_status_string(UCS_PTR_STATUS(request)));
  return std::unexpected(gone(peer));
}

Result<Port::Progress> UcxPort::send(PeerId rank, std::span<const std::byte> header,
                                     std::span<const std::byte> bytes, Token token) {
  auto found = addressee(rank, header);
  if (!found) return std::unexpected(std::move(found).error());
  Peer& peer = **found;
  const bool inlined = bytes.size() <= std::min<std::uint64_t>(Operation::inline_limit, peer.eager_limit);
  if (bytes.size() > peer.eager_limit && peer.in_pieces) return offer_in_pieces(peer, header, bytes, token);
  Operation& operation = operations_.take();
  operation.token = token;
  const std::span<const std::byte> none;
  ucs_status_ptr_t request =
      post(peer, operation, {.sequence = peer.sent++, .kind = wire::PortKind::message}, header,
           inlined ? bytes : none, inlined ? none : bytes,
           bytes.size() <= peer.eager_limit ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV);
  ISTHMUS_TRY(took(peer, operation, request));
  if (request == nullptr) [[likely]]
    return Progress::complete;
  operation.kind = inlined && buffered_ < buffered_limit ? Operation::Kind::buffered : Operation::Kind::send;
  if (operation.kind == Operation::Kind::send) return Progress::pending;
  ++buffered_;
  return Progress::complete;
}

Result<Port::Progress> UcxPort::send_from_gpu(PeerId rank, std::span<const std::byte> header,
                                              std::span<const std::byte> bytes, Token token) {
  auto found = addressee(rank, header);
  if (!found) return std::unexpected(std::move(found).error());
  Operation& operation = operations_.take();
  operation.token = token;
  operation.kind = Operation::Kind::send;
  Peer& peer = **found;
  ucs_status_ptr_t request = post(peer, operation, {.sequence = peer.sent++, .kind = wire::PortKind::message},
                                  header, {}, bytes, UCP_AM_SEND_FLAG_RNDV, UCS_MEMORY_TYPE_CUDA);
  ISTHMUS_TRY(took(peer, operation, request));
  return request == nullptr ? Progress::complete : Progress::pending;
}

ucs_status_ptr_t UcxPort::post(Peer& peer, Operation& operation, const wire::PortEnvelope& envelope,
                               std::span<const std::byte> header, std::span<const std::byte> inlined,
                               std::span<const std::byte> data, unsigned flags, ucs_memory_type_t memory) {
  wire::PortEnvelope head = envelope;
  head.token = peer.token;
  head.sender = self_.rank;
  head.header_bytes = static_cast<std::uint8_t>(header.size());
  head.inlined = static_cast<std::uint16_t>(inlined.size());
  std::byte* to = operation.head.data();
  const auto put = [&to](const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    to += bytes;
  };
  put(&head, sizeof head);
  put(header.data(), header.size());
  put(inlined.data(), inlined.size());
  operation.port = this;
  operation.peer = peer.rank;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.memory_type = memory;
  param.cb.send = on_sent;
  param.user_data = &operation;
  param.flags = flags;
  peer.dirty = true;
  return ucp_am_send_nbx(peer.endpoint, active_message_id, operation.head.data(),
                         static_cast<std::size_t>(to - operation.head.data()), data.data(), data.size(),
                         &param);
}

void UcxPort::on_sent(void* request, ucs_status_t status, void* user) {
  auto& operation = *static_cast<Operation*>(user);
  ucp_request_free(request);
  operation.port->finish_safely(operation, status);
}

void UcxPort::finish_safely(Operation& operation, ucs_status_t status) noexcept {
  const PeerId peer = operation.peer;
  const bool is_piece = operation.kind == Operation::Kind::piece;
  try {
    finish(operation, status);
  } catch (const std::bad_alloc&) {
    // It is pending still, and ends with its peer; so does the offer of a piece.
    if (!is_piece) operation.is_over = true;
    doom_for_memory(peer);
  }
}

void UcxPort::finish(Operation& operation, ucs_status_t status) {
  if (operation.kind == Operation::Kind::piece) {
    Operation& parent = *operation.parent;
    --parent.pieces;
    retire(operation);
    if (parent.done && parent.pieces == 0) end_offer(parent);
    return;
  }
  if (status == UCS_OK) {
    report(operation, nullptr);
  } else {
    const Peer& peer = this->peer(operation.peer);
    const Error error = peer.why.empty() ? not_reached(operation.peer, status) : gone(peer);
    report(operation, &error);
  }
  retire(operation);
}

void UcxPort::retire(Operation& operation) noexcept {
  operations_.remove_pending(operation);
  operation.prefix.reset();
  if (operation.kind == Operation::Kind::buffered) --buffered_;
  operations_.give_back(operation);
}

void UcxPort::report(Operation& operation, const Error* error) {
  using Kind = Operation::Kind;
  if (operation.given_up || closing_ || operation.kind == Kind::buffered || operation.kind == Kind::control ||
      operation.kind == Kind::piece)
    return;
  ++delivered_;
  if (operation.kind == Operation::Kind::fetch)
    events_->fetched(operation.token, error);
  else
    events_->sent(operation.token, error);
}

bool UcxPort::idle() {
  if (flushing_) return false;
  const auto sends = [](const Operation* operation) { return operation->kind != Operation::Kind::fetch; };
  if (!declined_.empty() || std::ranges::any_of(operations_.pending(), sends)) return false;
  for (const auto& peer : peers_) {
    if (!peer || !peer->dirty || !peer->endpoint) continue;
    peer->dirty = false;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = on_flushed;
    param.user_data = this;
    if (UCS_PTR_IS_PTR(ucp_ep_flush_nbx(peer->endpoint, &param))) {
      flushing_ = true;
      return false;
    }
  }
  return true;
}

void UcxPort::on_flushed(void* request, ucs_status_t /*status*/, void* port) {
  ucp_request_free(request);
  static_cast<UcxPort*>(port)->flushing_ = false;
}

}  // namespace isthmus::network
