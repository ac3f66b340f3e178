// Messages too long to travel with their envelope: the receiver, who alone knows both memories, decides how
// the bytes go.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "channel/cma/refusal.hpp"
#include "p2p/engine.hpp"

namespace isthmus {
namespace {

/// Bytes of one fragment of a stream unless a setting says otherwise: small enough that both sides copy at
/// the same time through cache, large enough to hide the cell.
constexpr std::uint32_t default_fragment = 16 * 1024;

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

template <class T>
T read_payload(const wire::Cell& cell) {
  return wire::copy_out<T>(cell.payload.data());
}

}  // namespace

void Engine::send_control(Peer& peer, wire::CellKind kind, const void* payload, std::size_t bytes) {
  if (!peer.out.open()) connect(peer);
  if (!peer.out.open()) return;
  const wire::CellHeader header{.context = 0,
                                .source = 0,
                                .tag = 0,
                                .size = 0,
                                .kind = kind,
                                .flag = wire::CellFlag::none,
                                .reserved = 0};
  if (peer.control.empty() && peer.out.has_cell()) {
    peer.out.publish(header, payload, bytes);
    after_publish(peer);
    return;
  }
  ControlCell& cell = peer.control.emplace_back();
  cell.header = header;
  std::memcpy(cell.payload.data(), payload, bytes);
  list(peer);
}

void Engine::receive_control(Peer& peer, const wire::CellHeader& header, const wire::Cell& cell,
                             const std::byte* bytes) {
  using Kind = wire::CellKind;
  if (header.kind == Kind::ready_to_send)
    return receive_offer(peer, header, read_payload<wire::SendOffer>(cell));
  if (header.kind == Kind::fragment)
    return receive_fragment(peer, read_payload<wire::FragmentHeader>(cell), bytes, header.size);
  if (header.kind >= Kind::gpu_offer) return receive_gpu_control(peer, header, cell, bytes);
  // The rest concerns a send of ours; every offer begins with its cookie.
  Request* send = requests_.find(read_payload<wire::Cookie>(cell));
  if (!send || send->kind != Request::Kind::send || send->peer != &peer || send->complete || send->unsent ||
      send->transfer != Request::Transfer::none)
    return malformed(peer, "answer to a send that is not pending");
  switch (header.kind) {
    case Kind::acknowledge:
    case Kind::share_done:
      return finish(*send);
    case Kind::clear_to_send: {
      const auto offer = read_payload<wire::ReceiveOffer>(cell);
      if (offer.bytes > send->payload.bytes) return malformed(peer, "asks for more than was offered");
      send->transfer = Request::Transfer::stream;
      send->remote = offer.receiver;
      send->limit = offer.bytes;
      if (send->payload.type)
        send->cursor = std::make_unique<Cursor>(*send->payload.type, send->payload.data, send->payload.count);
      peer.streaming.push_back(send);
      list(peer);
      return;
    }
    case Kind::split_start:
      return join_split(peer, *send, read_payload<wire::SplitOffer>(cell));
    default:
      return;
  }
}

void Engine::receive_offer(Peer& peer, const wire::CellHeader& header, const wire::SendOffer& offer) {
  MatchContext& context = matcher_.context(header.context);
  if (!context.is_source(header.source)) return malformed(peer, "source beyond its group");
  if (offer.bytes > std::numeric_limits<std::int64_t>::max())
    return malformed(peer, "offer beyond all memory");
  if (Request* receive = context.match(header.source, header.tag))
    return begin_rendezvous(peer, *receive, header.source, header.tag, offer);
  keep_offer(peer, context, header.source, header.tag, offer.bytes, UnexpectedMessage::Content::offer).offer =
      offer;
}

UnexpectedMessage& Engine::keep_offer(Peer& peer, MatchContext& context, int source, int tag,
                                      std::uint64_t bytes, UnexpectedMessage::Content content) {
  UnexpectedMessage& message = *matcher_.take_message();
  message.source = source;
  message.tag = tag;
  message.bytes = bytes;
  message.content = content;
  message.context = &context;
  message.peer = &peer;
  context.add(&message);
  return message;
}

void Engine::begin_rendezvous(Peer& peer, Request& receive, int source, int tag,
                              const wire::SendOffer& offer) {
  receive.assign(&peer, source, tag, offer.bytes);
  if (receive.limit == 0) {
    send_control(peer, wire::CellKind::share_done, &offer.sender, sizeof offer.sender);
    return finish(receive);
  }
  if (receive.gpu) [[unlikely]] {
    if (begin_to_gpu(peer, receive, offer)) return;
    static_cast<void>(receive.landing());
  }
  if (!peer.probed) probe_reach(peer);
  if (offer.address != 0 && peer.pull) {
    const Protocol protocol = peer.plan.step(receive.limit).protocol;
    if (protocol == Protocol::split && !receive.payload.type) {
      receive.transfer = Request::Transfer::split;
      receive.remote = offer.sender;
      receive.remote_address = offer.address;
      if (!offer_split(peer, receive)) deferred_.push_back(&receive);
      return;
    }
    if (auto pulled = pull_all(peer, receive, offer.address)) {
      peer.traffic.add_received(Protocol::pull, receive.limit);
      send_control(peer, wire::CellKind::share_done, &offer.sender, sizeof offer.sender);
      return finish(receive);
    }
    // What the kernel refuses, the two processes can still do themselves, from the start.
  }
  if (receive.payload.type)
    receive.cursor =
        std::make_unique<Cursor>(*receive.payload.type, receive.payload.data, receive.payload.count);
  receive.transfer = Request::Transfer::stream;
  peer.traffic.add_received(Protocol::stream, receive.limit);
  const wire::ReceiveOffer answer{
      .sender = offer.sender, .receiver = receive.cookie(), .bytes = receive.limit};
  send_control(peer, wire::CellKind::clear_to_send, &answer, sizeof answer);
}

Result<> Engine::pull_all(Peer& peer, Request& receive, std::uint64_t address) {
  const pid_t pid = peer.pid;
  if (!receive.payload.type) return cma::read(pid, address, receive.payload.data, receive.limit);
  Cursor cursor(*receive.payload.type, receive.payload.data, receive.payload.count);
  std::array<Segment, 256> segments;
  std::array<iovec, 256> pieces;
  std::uint64_t moved = 0;
  while (moved < receive.limit) {
    const std::size_t count = cursor.segments(segments, receive.limit - moved);
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
      pieces[i] = {segments[i].data, segments[i].bytes};
      bytes += segments[i].bytes;
    }
    ISTHMUS_TRY(cma::read(pid, address + moved, {pieces.data(), count}));
    moved += bytes;
  }
  return {};
}

/// Offers a copy by both sides to the sender of a message that `receive` has matched. False while all that
/// the ring has room for are under way.
bool Engine::offer_split(Peer& peer, Request& receive) {
  for (std::uint32_t index = 0; index < wire::shares_per_ring; ++index) {
    wire::Share& share = peer.in.share(index);
    // The sender may have let go of one whose end the receive here has not seen yet.
    if ((peer.shares_held >> index & 1U) != 0 || share.in_use.load(std::memory_order_acquire) != 0) continue;
    share.claimed.store(0, std::memory_order_relaxed);
    share.done.store(0, std::memory_order_relaxed);
    share.failed.store(0, std::memory_order_relaxed);
    share.in_use.store(1, std::memory_order_release);
    peer.shares_held |= static_cast<std::uint8_t>(1U << index);
    receive.share = index;
    receive.chunk = chunk_for(receive.limit);
    const wire::SplitOffer answer{.sender = receive.remote,
                                  .address = reinterpret_cast<std::uint64_t>(receive.payload.data),
                                  .bytes = receive.limit,
                                  .share = index,
                                  .chunk = receive.chunk};
    send_control(peer, wire::CellKind::split_start, &answer, sizeof answer);
    peer.traffic.add_received(Protocol::split, receive.limit);
    shares_.push_back(&receive);
    return true;
  }
  return false;
}

void Engine::join_split(Peer& peer, Request& send, const wire::SplitOffer& offer) {
  if (send.payload.type || offer.bytes == 0 || offer.bytes > send.payload.bytes ||
      offer.share >= wire::shares_per_ring || offer.chunk != chunk_for(offer.bytes))
    return malformed(peer, "offer of a shared copy that does not fit the send");
  send.transfer = Request::Transfer::split;
  send.limit = offer.bytes;
  send.share = offer.share;
  send.chunk = offer.chunk;
  send.remote_address = offer.address;
  peer.traffic.add_sent(Protocol::split, offer.bytes);
  if (!peer.probed) probe_reach(peer);
  send.exhausted = !peer.push;
  shares_.push_back(&send);
}

void Engine::found_gone(Peer& peer) const {
  constexpr useconds_t patience = 500'000;
  if (!job_.singleton && !std::exchange(peer.gone, true)) ::usleep(patience);
}

Result<> Engine::after_copy(Peer& peer, Result<> copied) const {
  if (!copied && copied.error().error_class() == ErrorClass::proc_aborted) found_gone(peer);
  return copied;
}

wire::Share& Engine::share_of(const Request& request) noexcept {
  Peer& peer = *request.peer;
  return request.kind == Request::Kind::receive ? peer.in.share(request.share)
                                                : peer.out.share(request.share);
}

/// Copies one chunk, the receiver from the start, the sender from the end; false if none is left.
bool Engine::copy_chunk(Request& request) {
  if (request.exhausted) return false;
  const bool front = request.kind == Request::Kind::receive;
  wire::Share& share = share_of(request);
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
    const Result<> copied = after_copy(peer, front ? cma::read(peer.pid, address, local, bytes)
                                                   : cma::write(peer.pid, address, local, bytes));
    if (!copied) share.failed.store(1, std::memory_order_relaxed);
  }
  share.done.fetch_add(1, std::memory_order_release);
  return true;
}

/// Completes one side of a shared copy if all chunks are done.
bool Engine::finish_share(Peer& peer, Request& request) {
  const bool receiver = request.kind == Request::Kind::receive;
  wire::Share& share = share_of(request);
  if (share.done.load(std::memory_order_acquire) < chunk_count(request.limit, request.chunk)) return false;
  if (share.failed.load(std::memory_order_relaxed) != 0)
    request.status.error = static_cast<int>(peer.gone ? ErrorClass::proc_aborted : ErrorClass::buffer);
  if (receiver)
    peer.shares_held &= static_cast<std::uint8_t>(~(1U << request.share));
  else
    share.in_use.store(0, std::memory_order_release);
  notify(peer.id);
  finish(request);
  return true;
}

unsigned Engine::advance_shares() {
  // One chunk at a time and the oldest message first, so that both sides have offered each other what comes
  // next while they copy: with 64 messages of 1 MiB under way 8.3 GB/s become 12.
  unsigned happened =
      std::ranges::any_of(shares_, [this](Request* request) { return copy_chunk(*request); }) ? 1 : 0;
  happened += static_cast<unsigned>(
      std::erase_if(shares_, [this](Request* request) { return finish_share(*request->peer, *request); }));
  if (!deferred_.empty()) [[unlikely]]
    std::erase_if(deferred_, [this](Request* receive) { return offer_split(*receive->peer, *receive); });
  return happened;
}

unsigned Engine::stream(Peer& peer) {
  unsigned happened = 0;
  const std::uint32_t fragment_bytes = settings_.fragment != 0 ? settings_.fragment : default_fragment;
  while (Request* send = peer.streaming.front()) {
    const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        {fragment_bytes, wire::maximum_piece(region_.geometry()) / 2, send->limit - send->moved}));
    if (!peer.out.has_cell()) break;
    std::byte* to = peer.out.reserve(bytes);
    if (!to) break;
    if (send->cursor)
      send->cursor->pack({to, bytes});
    else if (bytes != 0)
      std::memcpy(to, send->payload.data + send->moved, bytes);
    const wire::FragmentHeader fragment{.receiver = send->remote, .offset = send->moved};
    const wire::CellHeader header{.context = 0,
                                  .source = 0,
                                  .tag = 0,
                                  .size = bytes,
                                  .kind = wire::CellKind::fragment,
                                  .flag = wire::CellFlag::none,
                                  .reserved = 0};
    peer.out.publish_reserved(header, &fragment, sizeof fragment);
    after_publish(peer);
    send->moved += bytes;
    ++happened;
    if (send->moved == send->limit) {
      peer.traffic.add_sent(Protocol::stream, send->limit);
      peer.streaming.remove(send);
      finish(*send);
    }
  }
  return happened;
}

void Engine::receive_fragment(Peer& peer, const wire::FragmentHeader& fragment, const std::byte* bytes,
                              std::uint32_t size) {
  Request* receive = requests_.find(fragment.receiver);
  if (!receive || receive->kind != Request::Kind::receive || receive->peer != &peer || receive->complete ||
      receive->transfer != Request::Transfer::stream || fragment.offset != receive->moved ||
      size > receive->limit - receive->moved)
    return malformed(peer, "fragment that no receive waits for");
  if (receive->cursor)
    receive->cursor->unpack({bytes, size});
  else
    std::memcpy(receive->payload.data + receive->moved, bytes, size);
  receive->moved += size;
  if (receive->moved == receive->limit) finish(*receive);
}

void Engine::probe_reach(Peer& peer) {
  if (peer.id == rank_ || !peer.is_local()) {
    peer.probed = true;
    return;
  }
  wire::PlaceRecord& published = region_.block(peer.slot).place;
  if (std::atomic_ref(published.probe_address).load(std::memory_order_acquire) == 0)
    return;  // it has not come that far in MPI_Init: try again next time
  const auto place = wire::copy_out<wire::PlaceRecord>(&published);
  peer.probed = true;
  const auto to_reach = [&](Result<> result) -> Reach {
    if (result) return {};
    return std::unexpected(Reason{cma::explain_refusal(result.error(), region_.block(slot_).place, place)});
  };
  if (settings_.cma == CmaSetting::off) {
    peer.pull = peer.push = std::unexpected(Reason{"switched off by ISTHMUS_CMA=off"});
  } else if (!same_machine(peer.slot)) {
    peer.pull = peer.push = std::unexpected(Reason{"it is in another virtual machine"});
  } else if (place.pid == ::getpid() && !job_.in_process) {
    // Containers often have the same pid inside. And a peer that names this process as its own, with a nonce
    // that it knows to be here, would have it write wherever the peer likes.
    peer.pull = peer.push = std::unexpected(Reason{
        "it has the pid of this process, " + std::to_string(place.pid) + ", in a pid namespace of its own"});
  } else {
    peer.pid = place.pid;
    peer.pull = to_reach(cma::try_read(place.pid, place.probe_address, place.probe_nonce));
    peer.push = to_reach(cma::try_write(place.pid, place.probe_address, place.probe_nonce));
  }
  peer.plan = Plan({.pull = peer.pull,
                    .push = peer.push,
                    .eager_limit = eager_limit_,
                    .split_from = settings_.split_from != 0 ? settings_.split_from : default_split_from});
}

}  // namespace isthmus
