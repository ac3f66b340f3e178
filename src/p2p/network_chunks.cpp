#include "p2p/network_chunks.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.hpp"
#include "p2p/engine.hpp"
#include "p2p/network_header.hpp"
#include "p2p/remote.hpp"

namespace isthmus {
namespace {

/// In the lower half of a token, where requests have their index: there are never so many.
constexpr std::uint32_t chunk_mark = std::numeric_limits<std::uint32_t>::max();

constexpr PinnedPool::Limits pool_limits{};

bool is_landed_by_gpu(const Request& receive) {
  return receive.gpu && receive.gpu->is_one_copy();
}

}  // namespace

NetworkChunks::~NetworkChunks() {
  if (registered_ && engine_.gpu_) engine_.gpu_->remove(*this);
}

void NetworkChunks::release() noexcept {
  outgoing_.clear();
  incoming_.clear();
  operations_.clear();
  pools_.clear();
  copying_ = 0;
  registered_ = false;
}

/// A GPU could not copy a chunk of a message.
void NetworkChunks::fail(bool& failed, const Error& why) {
  failed = true;
  if (!std::exchange(complained_, true) && engine_.settings_.warn) warn(why.text());
}

// --- memory and tokens

/// Of a message that is longer than what the network sends at once, and so is each chunk.
std::uint64_t NetworkChunks::count_for(const Peer& peer, std::uint64_t bytes) const {
  const std::uint64_t whole = cut_from(remote_.port_->eager_limit(peer.id), engine_.settings_.gpu_chunk) / 2;
  return std::max<std::uint64_t>(bytes / whole, 1);
}

NetworkChunks::Slot NetworkChunks::take_slot(cuda::Device device, std::uint64_t bytes) {
  if (!std::exchange(registered_, true)) engine_.gpu_->add(*this);
  Slot slot;
  if (bytes <= pool_limits.most) {
    PinnedPool& pool =
        pools_.try_emplace(device, engine_.gpu_->contexts(), device, pool_limits).first->second;
    auto pinned = pool.take(bytes);
    if (pinned && pinned->size() >= bytes) {
      slot.pinned = std::move(*pinned);
      slot.memory = slot.pinned.span().first(bytes);
      return slot;
    }
    if (!std::exchange(complained_of_memory_, true) && engine_.settings_.warn)
      warn("messages between GPU memory and other hosts go by way of the CUDA driver's own memory: " +
           (pinned ? "so many are under way that no more pinned memory is left" : pinned.error().text()));
  }
  slot.plain = std::make_unique_for_overwrite<std::byte[]>(bytes);
  slot.memory = {slot.plain.get(), bytes};
  return slot;
}

network::Token NetworkChunks::begin_operation(Operation operation) {
  while (operations_.contains(++last_operation_)) {
  }
  operations_.emplace(last_operation_, std::move(operation));
  return std::uint64_t{last_operation_} << 32U | chunk_mark;
}

std::optional<NetworkChunks::Operation> NetworkChunks::end_operation(network::Token token) {
  const auto found = operations_.find(static_cast<std::uint32_t>(token >> 32U));
  if (static_cast<std::uint32_t>(token) != chunk_mark || found == operations_.end()) return std::nullopt;
  Operation operation = std::move(found->second);
  operations_.erase(found);
  return operation;
}

// --- the sender's side

Request* NetworkChunks::try_send(Peer& peer, const Target& target, std::unique_ptr<GpuPart>& part,
                                 SendMode mode) {
  const std::uint64_t bytes = part->payload.bytes;
  if (bytes <= remote_.port_->eager_limit(peer.id)) return nullptr;
  const std::uint64_t chunks = count_for(peer, bytes);
  Request* send = engine_.make_send(target, part->payload, mode);
  const auto header = network_header(wire::NetworkKind::chunked, target, bytes, send->cookie());
  const auto told = remote_.port_->send(peer.id, std::as_bytes(std::span(&header, 1)), {}, chunk_mark);
  send->peer = &peer;
  send->transfer = Request::Transfer::copy;
  send->gpu = std::move(part);
  Outgoing& out =
      outgoing_
          .insert_or_assign(
              send->cookie(),
              Outgoing{
                  .peer = &peer, .send = send->cookie(), .chunks = chunks, .bytes = bytes, .copying = {}})
          .first->second;
  out.failed = out.cut_off = !told;
  peer.traffic.add_sent(Protocol::network_chunks, bytes);
  advance(out);
  return send;
}

void NetworkChunks::cut(Peer& peer, wire::Cookie sender) {
  Request* send = engine_.requests_.find(sender);
  if (!send || send->kind != Request::Kind::send || send->peer != &peer || send->complete ||
      outgoing_.contains(sender) || send->limit != 1 ||
      send->payload.bytes <= remote_.port_->eager_limit(peer.id))
    return engine_.malformed(peer, "asks for chunks of a send that is not pending");
  ++send->limit;
  const std::uint64_t bytes = send->payload.bytes;
  outgoing_.insert_or_assign(sender, Outgoing{.peer = &peer,
                                              .send = sender,
                                              .chunks = count_for(peer, bytes),
                                              .bytes = bytes,
                                              .is_cut = true,
                                              .host = send->gpu            ? nullptr
                                                      : send->payload.type ? send->staging.get()
                                                                           : send->payload.data,
                                              .copying = {}});
}

/// All equal, or one byte longer, so that the last is not a short one.
std::uint64_t NetworkChunks::next_chunk(Outgoing& out) noexcept {
  return out.bytes / out.chunks + (out.index++ < out.bytes % out.chunks ? 1 : 0);
}

/// Begins the copy of the next chunk.
bool NetworkChunks::copy_out(Outgoing& out) {
  const Request& send = *engine_.requests_.find(out.send);
  const std::uint64_t bytes = next_chunk(out);
  const Buffer& near = send.gpu->buffer;
  Slot slot = take_slot(near.device, bytes);
  auto copy = engine_.gpu_->stage(near, GpuMessages::Direction::to_host,
                                  {slot.memory.data(), send.gpu->payload.data + out.begun, bytes});
  if (!copy) {
    fail(out.failed, copy.error());
    return false;
  }
  out.copying.push_back({std::move(*copy), std::move(slot), bytes});
  out.begun += bytes;
  ++copying_;
  return true;
}

/// Gives a chunk to the network.
void NetworkChunks::offer(Outgoing& out, std::span<const std::byte> chunk, Slot slot) {
  const auto header = network_header(wire::NetworkKind::chunk, {}, chunk.size(), out.send);
  const network::Token token = begin_operation({.key = {out.peer->id, out.send}, .slot = std::move(slot)});
  const auto progress = remote_.port_->send(out.peer->id, std::as_bytes(std::span(&header, 1)), chunk, token);
  if (progress && *progress == network::Port::Progress::pending) {
    ++out.under_way;
    return;
  }
  if (!progress) out.failed = out.cut_off = true;
  end_operation(token);
}

unsigned NetworkChunks::advance(Outgoing& out) {
  unsigned happened = 0;
  while (!out.failed && out.begun < out.bytes && out.copying.size() + out.under_way < depth) {
    if (!out.host && !copy_out(out)) break;
    if (!out.host) continue;
    const std::uint64_t bytes = next_chunk(out);
    offer(out, {out.host + std::exchange(out.begun, out.begun + bytes), bytes}, {});
    ++happened;
  }
  while (!out.copying.empty()) {
    const Result<bool> done = out.copying.front().copy.is_done();
    if (done && !*done) break;
    ++happened;
    Copying copied = std::move(out.copying.front());
    out.copying.pop_front();
    --copying_;
    if (!done) fail(out.failed, done.error());
    if (out.failed) continue;
    const std::span<const std::byte> chunk = copied.slot.memory;
    offer(out, chunk, std::move(copied.slot));
  }
  return happened;
}

bool NetworkChunks::is_over(const Outgoing& out) noexcept {
  return out.under_way == 0 && out.copying.empty() && (out.failed || out.begun == out.bytes);
}

void NetworkChunks::finish(const Outgoing& out) {
  Request* send = engine_.requests_.find(out.send);
  if (!send) return;
  if (out.failed) {
    send->status.error = static_cast<int>(out.cut_off ? ErrorClass::proc_aborted : ErrorClass::other);
    const auto header = network_header(wire::NetworkKind::chunk, {}, 0, out.send);
    // Where it does not arrive, the peer hears of the loss.
    [[maybe_unused]] const auto told =
        remote_.port_->send(out.peer->id, std::as_bytes(std::span(&header, 1)), {}, chunk_mark);
  }
  // The whole has been offered, too.
  if (out.is_cut) return remote_.end_part(*send);
  engine_.finish(*send);
}

bool NetworkChunks::sent(network::Token token, const Error* error) {
  auto operation = end_operation(token);
  if (!operation) return static_cast<std::uint32_t>(token) == chunk_mark;
  const auto found = outgoing_.find(operation->key.second);
  if (found == outgoing_.end()) return true;
  --found->second.under_way;
  if (error) found->second.failed = found->second.cut_off = true;
  return true;
}

// --- the receiver's side

void NetworkChunks::announced(Peer& peer, const wire::NetworkHeader& header) {
  const Key key{peer.id, header.sender};
  if (header.bytes == 0 || incoming_.contains(key))
    return engine_.malformed(peer, "message in chunks that cannot be");
  MatchContext& context = engine_.matcher_.context(header.context);
  if (!context.is_source(header.source)) return engine_.malformed(peer, "source beyond its group");
  incoming_.emplace(
      key, Incoming{.peer = &peer, .bytes = header.bytes, .waiting = {}, .copying = {}, .receive = {}});
  if (Request* receive = context.match(header.source, header.tag))
    return remote_.fetch_chunks(peer, *receive, header.source, header.tag, header.bytes, header.sender);
  engine_
      .keep_offer(peer, context, header.source, header.tag, header.bytes,
                  UnexpectedMessage::Content::remote_chunks)
      .offer.sender = header.sender;
}

void NetworkChunks::match(Peer& peer, Request& receive, wire::Cookie sender) {
  const auto found = incoming_.find({peer.id, sender});
  if (found == incoming_.end()) {
    receive.status.error = static_cast<int>(ErrorClass::proc_aborted);
    return engine_.finish(receive);
  }
  peer.traffic.add_received(Protocol::network_chunks, receive.limit);
  if (receive.payload.type) receive.staging = std::make_unique_for_overwrite<std::byte[]>(receive.limit);
  receive.transfer = Request::Transfer::copy;
  found->second.receive = receive.cookie();
}

bool NetworkChunks::try_fetch(Peer& peer, Request& receive, const RemoteOffer& offer) {
  const Key key{peer.id, offer.sender};
  if (receive.limit == 0 || !is_landed_by_gpu(receive) || incoming_.contains(key) || !remote_.connect(peer))
    return false;
  Incoming in{.peer = &peer, .bytes = offer.bytes, .waiting = {}, .copying = {}, .receive = receive.cookie()};
  const bool is_cut =
      offer.bytes >= cut_from(remote_.port_->eager_limit(peer.id), engine_.settings_.gpu_chunk);
  if (is_cut) {
    const auto header = network_header(wire::NetworkKind::cut, {}, 0, offer.sender);
    if (!remote_.port_->send(peer.id, std::as_bytes(std::span(&header, 1)), {}, chunk_mark)) return false;
    in.whole = offer.id;
  } else {
    in.waiting.push_back({offer.id, 0, offer.bytes});
    in.seen = offer.bytes;
  }
  peer.traffic.add_received(is_cut ? Protocol::network_chunks : Protocol::network_rendezvous, receive.limit);
  receive.transfer = Request::Transfer::copy;
  incoming_.emplace(key, std::move(in));
  return true;
}

void NetworkChunks::decline(Peer& peer, wire::Cookie sender) {
  const auto found = incoming_.find({peer.id, sender});
  if (found != incoming_.end()) found->second.declined = true;
}

void NetworkChunks::broken_off(Peer& peer, wire::Cookie sender) {
  const auto found = incoming_.find({peer.id, sender});
  if (found == incoming_.end()) return engine_.malformed(peer, "end of no message");
  found->second.failed = true;
  found->second.seen = found->second.bytes;
}

void NetworkChunks::offered(Peer& peer, const wire::NetworkHeader& header, std::uint64_t bytes,
                            network::OfferId offer) {
  const auto found = incoming_.find({peer.id, header.sender});
  const bool fits =
      found != incoming_.end() && bytes != 0 && bytes <= found->second.bytes - found->second.seen;
  if (!fits) {
    engine_.malformed(peer, "chunk of no message");
    return remote_.decline(peer, offer);
  }
  Incoming& in = found->second;
  in.waiting.push_back({offer, in.seen, bytes});
  in.seen += bytes;
}

unsigned NetworkChunks::advance(const Key& key, Incoming& in) {
  unsigned happened = 0;
  Request* const receive = in.receive ? engine_.requests_.find(*in.receive) : nullptr;
  while (!in.copying.empty()) {
    const Result<bool> done = in.copying.front().copy.is_done();
    if (done && !*done) break;
    if (!done) fail(in.failed, done.error());
    in.copying.pop_front();
    --copying_;
    ++happened;
  }
  while (!in.waiting.empty() && (receive || in.declined || in.failed)) {
    const Offer offer = in.waiting.front();
    const std::uint64_t limit = receive && !in.failed ? receive->limit : 0;
    const std::uint64_t bytes = offer.offset < limit ? std::min(offer.bytes, limit - offer.offset) : 0;
    if (bytes != 0 && in.under_way + in.copying.size() >= depth) break;
    in.waiting.pop_front();
    ++happened;
    if (bytes == 0)
      remote_.decline(*in.peer, offer.id);
    else
      fetch(key, in, offer, *receive, bytes);
  }
  return happened;
}

void NetworkChunks::fetch(const Key& key, Incoming& in, const Offer& offer, Request& receive,
                          std::uint64_t bytes) {
  Operation operation{.key = key, .slot = {}, .offset = offer.offset, .bytes = bytes};
  std::span<std::byte> to;
  if (is_landed_by_gpu(receive)) {
    operation.slot = take_slot(receive.gpu->buffer.device, bytes);
    to = operation.slot.memory;
  } else {
    std::byte* const whole = receive.staging ? receive.staging.get() : receive.landing().data;
    to = {whole + offer.offset, bytes};
  }
  ++in.under_way;
  // Where that fails, the fetch reports it.
  [[maybe_unused]] const auto connected = remote_.connect(*in.peer);
  remote_.port_->fetch(offer.id, to, begin_operation(std::move(operation)));
}

bool NetworkChunks::fetched(network::Token token, const Error* error) {
  auto operation = end_operation(token);
  if (!operation) return static_cast<std::uint32_t>(token) == chunk_mark;
  const auto found = incoming_.find(operation->key);
  if (found == incoming_.end()) return true;
  Incoming& in = found->second;
  --in.under_way;
  if (error) in.failed = in.cut_off = true;
  Request* const receive = in.receive ? engine_.requests_.find(*in.receive) : nullptr;
  if (receive && !in.failed && is_landed_by_gpu(*receive)) land(in, *operation, *receive);
  return true;
}

/// From pinned memory to where it belongs.
void NetworkChunks::land(Incoming& in, Operation& operation, Request& receive) {
  const GpuPart& part = *receive.gpu;
  auto copy = engine_.gpu_->stage(
      part.buffer, GpuMessages::Direction::from_host,
      {part.payload.data + operation.offset, operation.slot.memory.data(), operation.bytes});
  if (!copy) return fail(in.failed, copy.error());
  in.copying.push_back({std::move(*copy), std::move(operation.slot), operation.bytes});
  ++copying_;
}

bool NetworkChunks::is_over(const Incoming& in) noexcept {
  const bool is_wanted = in.receive || in.declined;
  return is_wanted && in.under_way == 0 && in.copying.empty() && in.waiting.empty() &&
         (in.seen == in.bytes || in.peer->lost);
}

void NetworkChunks::finish(const Incoming& in) {
  if (in.whole != 0) remote_.decline(*in.peer, in.whole);
  Request* receive = in.receive ? engine_.requests_.find(*in.receive) : nullptr;
  if (!receive) return;
  if (in.failed || in.seen < in.bytes) {
    receive->status.error = static_cast<int>(in.cut_off ? ErrorClass::proc_aborted : ErrorClass::other);
    if (receive->gpu) receive->gpu->landed = true;
  } else if (receive->staging) {
    Cursor cursor(*receive->payload.type, receive->payload.data, receive->payload.count);
    cursor.unpack({receive->staging.get(), receive->limit});
  } else if (is_landed_by_gpu(*receive)) {
    receive->gpu->landed = true;
  }
  engine_.finish(*receive);
}

void NetworkChunks::lost(const Peer& peer) {
  for (auto& [key, in] : incoming_)
    if (in.peer == &peer) in.failed = in.cut_off = true;
  for (auto& [send, out] : outgoing_)
    if (out.peer == &peer) out.failed = out.cut_off = true;
}

// --- progress

unsigned NetworkChunks::poll() {
  unsigned happened = 0;
  for (auto next = outgoing_.begin(); next != outgoing_.end();) {
    const auto each = next++;
    happened += advance(each->second);
    if (!is_over(each->second)) continue;
    const Outgoing over = std::move(each->second);
    outgoing_.erase(each);
    finish(over);
    ++happened;
  }
  for (auto next = incoming_.begin(); next != incoming_.end();) {
    const auto each = next++;
    happened += advance(each->first, each->second);
    if (!is_over(each->second)) continue;
    const Incoming over = std::move(each->second);
    incoming_.erase(each);
    finish(over);
    ++happened;
  }
  return happened;
}

}  // namespace isthmus
