#include "p2p/protocol/cpu/split_copy.hpp"

#include <algorithm>
#include <atomic>
#include <new>

namespace isthmus {
namespace {

/// Chunk of a copy by both sides, in pages, because the kernel pins page by page. Large, because each costs a
/// system call of 0.5 us: with 256 KiB instead of 32 KiB, 512 KiB take 9.6 us instead of 12.4. Half of
/// shorter messages, so that both sides have one.
std::uint32_t chunk_for(std::uint64_t bytes) {
  constexpr std::uint64_t page = 4096;
  const std::uint64_t part = std::clamp<std::uint64_t>(bytes / 8, 256 * 1024, 1024 * 1024);
  return static_cast<std::uint32_t>((std::min(part, (bytes + 1) / 2) + page - 1) / page * page);
}

std::uint64_t chunk_count(std::uint64_t bytes, std::uint32_t chunk) {
  return (bytes + chunk - 1) / chunk;
}

Probed ask_of_split(const PairFacts& facts) noexcept {
  if (!facts.is_other_process()) return std::unexpected(no_neighbour);
  if (facts.is_managed()) return std::unexpected(of_another_process);
  if (!facts.pull) return std::unexpected("the peer's memory cannot be read");
  if (!facts.push) return std::unexpected("the peer cannot write to this process's memory");
  return Serves{.from = facts.split_from};
}

}  // namespace

constinit const Probe SplitCopies::probe{Protocol::split, ChannelId::cma, Cost::both_copy, &ask_of_split};

bool SplitCopies::try_start(Peer& peer, Request& receive, wire::Cookie sender, std::uint64_t address) {
  wire::Share* const share = shares_.take();
  if (!share) return false;
  receive.transfer = Request::Transfer::split;
  receive.peer_cookie = sender;
  receive.remote_address = address;
  receive.share = share;
  receive.chunk = chunk_for(receive.limit);
  const wire::SplitOffer answer{.sender = sender,
                                .address = reinterpret_cast<std::uint64_t>(receive.payload.data),
                                .bytes = receive.limit,
                                .share = shares_.place_of(*share),
                                .chunk = receive.chunk};
  links_.send_control(peer, wire::CellKind::split_start, &answer, sizeof answer);
  count_received(peer, receive, Protocol::split, receive.limit);
  under_way_.push_back(&receive);
  polled_.add(*this);
  return true;
}

void SplitCopies::asked_to_join(const ArrivedCell& cell) {
  Peer& peer = cell.peer;
  const auto offer = cell.payload<wire::SplitOffer>();
  Request* const named = completion_.find_unanswered(peer, offer.sender);
  if (!named) return;
  Request& send = *named;
  links_.prepare_answer(peer);
  // What the processor cannot read, and what is not for another process to read, has never been offered so.
  const bool is_apart = send.gpu || send.memory == MemoryKind::managed;
  wire::Share* const share = shares_.at(offer.share);
  if (is_apart || send.payload.type || offer.bytes == 0 || offer.bytes > send.payload.bytes || !share ||
      offer.chunk != chunk_for(offer.bytes))
    return links_.malformed(peer, "offer of a shared copy that does not fit the send");
  send.transfer = Request::Transfer::split;
  send.limit = offer.bytes;
  send.share = share;
  send.chunk = offer.chunk;
  send.remote_address = offer.address;
  peer.traffic.add_sent(Protocol::split, offer.bytes);
  access_.probe_if_possible(peer);
  send.exhausted = !peer.push;
  under_way_.push_back(&send);
  polled_.add(*this);
}

/// Copies one chunk, the receiver from the start, the sender from the end; false if none is left.
bool SplitCopies::copy_chunk(Request& request) {
  if (request.exhausted) return false;
  const bool front = request.kind == Request::Kind::receive;
  wire::Share& share = *request.share;
  const std::uint64_t total = chunk_count(request.limit, request.chunk);
  const std::uint64_t step = front ? 1 : std::uint64_t{1} << 32;
  const std::uint64_t claimed = share.claimed.fetch_add(step, std::memory_order_acq_rel);
  const std::uint64_t from_front = claimed & 0xffff'ffff;
  const std::uint64_t from_back = claimed >> 32;
  request.exhausted = from_front + from_back + 1 >= total;
  if (from_front + from_back >= total) return false;
  const std::uint64_t index = front ? from_front : total - 1 - from_back;
  const std::uint64_t offset = index * request.chunk;
  const std::uint64_t bytes = std::min<std::uint64_t>(request.chunk, request.limit - offset);
  // What has failed for one chunk is of no use to anybody: the rest is only counted.
  if (share.failed.load(std::memory_order_relaxed) == 0) {
    Peer& peer = *request.peer;
    const std::uint64_t address = request.remote_address + offset;
    std::byte* const local = request.payload.data + offset;
    const auto copy = [&] {
      try {
        return (front ? access_.read(peer, address, local, bytes)
                      : access_.write(peer, address, local, bytes))
            .has_value();
      } catch (const std::bad_alloc&) {
        return false;  // no memory for the reason
      }
    };
    const std::uint64_t began = plans_.work_begins();
    if (!copy()) share.failed.store(1, std::memory_order_relaxed);
    const std::uint64_t spent = plans_.work_since(began);
    if (front)
      LivePlans::worked(request.mark, spent);
    else if (spent != 0)
      share.worked.fetch_add(spent, std::memory_order_relaxed);
  }
  share.done.fetch_add(1, std::memory_order_release);
  return true;
}

/// Completes one side of a copy if all chunks are done, and takes it off the queue.
bool SplitCopies::finish_if_done(Peer& peer, Request& request) {
  const bool receiver = request.kind == Request::Kind::receive;
  wire::Share& share = *request.share;
  if (share.done.load(std::memory_order_acquire) < chunk_count(request.limit, request.chunk)) return false;
  if (share.failed.load(std::memory_order_relaxed) != 0)
    request.status.error = static_cast<int>(peer.gone ? ErrorClass::proc_aborted : ErrorClass::buffer);
  if (receiver) {
    plans_.noticed_sender(share.claimed.load(std::memory_order_relaxed) >> 32 != 0);
    LivePlans::worked(request.mark, share.worked.load(std::memory_order_relaxed));
    shares_.give_back(share);
    plans_.ended(request.mark, request.limit);
    reports_.end(peer, request.told);
  } else {
    share.in_use.store(0, std::memory_order_release);
  }
  under_way_.remove(&request);
  links_.notify(peer.id);
  completion_.finish(request);
  return true;
}

bool SplitCopies::copy_any_chunk() {
  for (Request* each = under_way_.front(); each; each = Requests::after(each))
    if (copy_chunk(*each)) return true;
  return false;
}

unsigned SplitCopies::poll() {
  // One chunk at a time and the oldest message first, so that both sides have offered each other what comes
  // next while they copy: with 64 messages of 1 MiB under way 8.3 GB/s become 12.
  unsigned happened = copy_any_chunk() ? 1 : 0;
  for (Request* next = under_way_.front(); Request* const each = next;) {
    next = Requests::after(each);
    happened += finish_if_done(*each->peer, *each) ? 1 : 0;
  }
  if (under_way_.empty()) polled_.remove(*this);
  return happened;
}

void SplitCopies::forget(const Peer& peer) noexcept {
  for (Request* next = under_way_.front(); Request* const each = next;) {
    next = Requests::after(each);
    if (each->peer != &peer) continue;
    under_way_.remove(each);
    // A sender that lives after all may look at it: it is used again where that one has let go.
    if (each->kind == Request::Kind::receive) shares_.give_back(*each->share);
  }
}

}  // namespace isthmus
