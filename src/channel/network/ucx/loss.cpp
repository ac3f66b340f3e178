#include <algorithm>
#include <new>
#include <thread>
#include <utility>

#include "channel/network/ucx/port.hpp"

namespace isthmus::network {
namespace {

using namespace std::chrono_literals;

/// How long a peer that has closed its watch is still listened to: what it sent before may come behind.
constexpr auto grace = 300ms;
/// So short that a string needs no memory for it.
constexpr std::string_view out_of_memory = "out of memory";
/// How long UCX gets to complete what it can with a peer that is lost, and with all of them in the
/// destructor.
constexpr auto cancel_limit = 100ms;
constexpr auto close_limit = 1s;

}  // namespace

Error UcxPort::gone(const Peer& peer) const {
  return Error(ErrorClass::proc_aborted,
               "rank " + std::to_string(peer.rank) + " cannot be reached any more: " + peer.why);
}

void UcxPort::on_failure(void* user, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(user);
  if (!peer.port->closing_) peer.port->doom(peer, {}, ucs_status_string(status));
}

void UcxPort::doom_for_memory(PeerId rank) noexcept {
  if (rank < self_.ranks && peers_[rank]) doom(*peers_[rank], {}, out_of_memory);
}

void UcxPort::doom(Peer& peer, Clock::duration grace_time, std::string_view why) noexcept {
  if (peer.lost) return;
  const auto ends = Clock::now() + grace_time;
  if (!peer.ends) {
    doomed_.push_back(&peer);  // the constructor has reserved it
    try {
      peer.why = why;
    } catch (const std::bad_alloc&) {
      peer.why = out_of_memory;
    }
    peer.ends = ends;
  }
  peer.ends = std::min(*peer.ends, ends);
}

void UcxPort::give_up(PeerId rank) noexcept {
  if (rank < self_.ranks && peers_[rank]) doom(*peers_[rank], {}, "its process has ended");
}

void UcxPort::look_at_watch() {
  for (Watch::Loss& loss : watch_->look())
    if (loss.peer < self_.ranks) doom(peer(loss.peer), loss.closed ? grace : 0ms, loss.why);
}

void UcxPort::bury_the_dead() {
  const auto now = Clock::now();
  for (std::size_t i = 0; i < doomed_.size();) {
    if (now < *doomed_[i]->ends) {
      ++i;
      continue;
    }
    Peer& peer = *doomed_[i];
    Ends ends = room_for_ends(peer);
    doomed_.erase(doomed_.begin() + static_cast<std::ptrdiff_t>(i));
    lose(peer, ends);
  }
}

/// All the memory that `lose` needs: where there is none, the peer is buried with a later poll.
UcxPort::Ends UcxPort::room_for_ends(const Peer& peer) const {
  Ends ends{.error = gone(peer), .fetches = {}, .operations = {}};
  ends.fetches.reserve(piece_fetches_.size());
  ends.operations.reserve(operations_.pending().size());
  return ends;
}

bool UcxPort::has_pending(PeerId rank) const {
  return std::ranges::any_of(operations_.pending(), [rank](const Operation* operation) {
    return operation->peer == rank && !operation->given_up && !operation->is_over &&
           operation->kind != Operation::Kind::offer;
  });
}

void UcxPort::close_endpoint(Peer& peer) {
  if (!peer.endpoint) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = [](void* request, ucs_status_t, void*) { ucp_request_free(request); };
  static_cast<void>(ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &param));
}

void UcxPort::drop_everything_of(Peer& peer) {
  peer.sequence.clear([this](const Early& early) {
    if (early.descriptor) ucp_am_data_release(worker_.get(), early.descriptor);
  });
}

void UcxPort::lose(Peer& peer, Ends& ends) {
  peer.lost = true;  // from now on nothing begins with it
  if (watch_) watch_->end(peer.rank);
  drop_everything_of(peer);
  close_endpoint(peer);
  const auto until = Clock::now() + cancel_limit;
  while (has_pending(peer.rank) && Clock::now() < until)
    ucp_worker_progress(worker_.get());
  drop_pieces_of(peer, ends);
  // A copy: an owner may begin something new when it hears of an end.
  ends.operations.clear();
  for (Operation* const each : operations_.pending())
    if (each->peer == peer.rank && !each->given_up) ends.operations.push_back(each);
  for (Operation* const each : ends.operations) {
    report(*each, &ends.error);
    each->given_up = true;
    if (each->is_over) retire(*each);
  }
  ++delivered_;
  events_->lost(peer.rank, ends.error);
}

void UcxPort::close_all() {
  const auto wait_until = [this](Clock::time_point limit, auto condition) {
    while (!condition() && Clock::now() < limit)
      if (ucp_worker_progress(worker_.get()) == 0) std::this_thread::yield();
  };
  for (auto& [id, offer] : offers_)
    if (offer.descriptor) ucp_am_data_release(worker_.get(), offer.descriptor);
  offers_.clear();
  for (auto& peer : peers_)
    if (peer) drop_everything_of(*peer);
  release_declined();
  wait_until(Clock::now() + close_limit, [this] { return idle(); });
  for (auto& peer : peers_)
    if (peer) close_endpoint(*peer);
  wait_until(Clock::now() + close_limit, [this] { return operations_.pending().empty(); });
}

UcxPort::~UcxPort() {
  closing_ = true;
  close_all();
}

}  // namespace isthmus::network
