#include <algorithm>
#include <cstring>
#include <utility>

#include "channel/network/ucx/active_message.hpp"
#include "channel/network/ucx/port.hpp"
#include "channel/network/ucx/status.hpp"

namespace isthmus::network {
namespace {

/// Short messages that UCX has not sent yet and of which the owner has heard that they are complete: 0.6 MiB.
constexpr std::size_t buffered_limit = 1024;

}  // namespace

Result<Port::Progress> UcxPort::send(PeerId rank, std::span<const std::byte> header,
                                     std::span<const std::byte> bytes, Token token) {
  if (rank >= self_.ranks || !peers_[rank] || (!peers_[rank]->endpoint && !peers_[rank]->lost))
    return fail(ErrorClass::intern, "rank " + std::to_string(rank) + " is not connected");
  Peer& peer = *peers_[rank];
  if (peer.lost) return std::unexpected(gone(peer));
  if (header.size() > header_limit) return fail(ErrorClass::intern, "a header is too long");

  const bool inlined = bytes.size() <= std::min<std::uint64_t>(Operation::inline_limit, peer.eager_limit);
  Operation& operation = operations_.take();
  const wire::PortEnvelope envelope{.token = peer.token,
                                    .sequence = peer.sent++,
                                    .sender = self_.rank,
                                    .header_bytes = static_cast<std::uint16_t>(header.size()),
                                    .inlined = static_cast<std::uint16_t>(inlined ? bytes.size() : 0)};
  std::byte* to = operation.head.data();
  std::memcpy(to, &envelope, sizeof envelope);
  to += sizeof envelope;
  if (!header.empty()) std::memcpy(to, header.data(), header.size());
  to += header.size();
  if (envelope.inlined > 0) std::memcpy(to, bytes.data(), envelope.inlined);
  to += envelope.inlined;

  operation.port = this;
  operation.peer = rank;
  operation.token = token;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = on_sent;
  param.user_data = &operation;
  param.flags = bytes.size() <= peer.eager_limit ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV;
  ucs_status_ptr_t request =
      ucp_am_send_nbx(peer.endpoint, active_message_id, operation.head.data(),
                      static_cast<std::size_t>(to - operation.head.data()), inlined ? nullptr : bytes.data(),
                      inlined ? 0 : bytes.size(), &param);
  peer.dirty = true;
  if (request == nullptr) [[likely]] {
    operations_.give_back(operation);
    return Progress::complete;
  }
  if (UCS_PTR_IS_ERR(request)) {
    operations_.give_back(operation);
    const ucs_status_t status = UCS_PTR_STATUS(request);
    // Its number is missing for good: there is nothing to go on with.
    doom(peer, {}, ucs_status_string(status));
    return std::unexpected(gone(peer));
  }
  operations_.add_pending(operation);
  operation.kind = inlined && buffered_ < buffered_limit ? Operation::Kind::buffered : Operation::Kind::send;
  if (operation.kind == Operation::Kind::send) return Progress::pending;
  ++buffered_;
  return Progress::complete;
}

void UcxPort::on_sent(void* request, ucs_status_t status, void* user) {
  auto& operation = *static_cast<Operation*>(user);
  ucp_request_free(request);
  operation.port->finish(operation, status);
}

void UcxPort::finish(Operation& operation, ucs_status_t status) {
  operations_.remove_pending(operation);
  if (operation.kind == Operation::Kind::fetch) prefixes_.erase(&operation);
  if (status == UCS_OK) {
    report(operation, nullptr);
  } else {
    const Peer& peer = this->peer(operation.peer);
    const Error error = peer.why.empty()
                            ? ucx_error(ErrorClass::proc_aborted,
                                        "rank " + std::to_string(operation.peer) + " is not reached", status)
                            : gone(peer);
    report(operation, &error);
  }
  if (operation.kind == Operation::Kind::buffered) --buffered_;
  operations_.give_back(operation);
}

void UcxPort::report(Operation& operation, const Error* error) {
  if (operation.given_up || closing_ || operation.kind == Operation::Kind::buffered) return;
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
