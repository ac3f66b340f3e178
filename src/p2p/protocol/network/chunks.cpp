#include "p2p/protocol/network/chunks.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "base/log.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/active/unexpected.hpp"
#include "p2p/link/links.hpp"
#include "p2p/message/matcher.hpp"
#include "p2p/protocol/gpu/access.hpp"
#include "p2p/protocol/network/header.hpp"
#include "p2p/protocol/network/links.hpp"
#include "p2p/protocol/network/sends.hpp"

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
  if (registered_ && gpu_.made()) gpu_.made()->exports().remove(*this);
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
void NetworkChunks::fail(Failure& failed, const Error& why) {
  failed = ErrorClass::other;
  if (!std::exchange(complained_, true) && links_.settings().warn) warn(why.text());
}

// --- memory and tokens

/// Of a message that is longer than what the network sends at once, and so is each chunk.
std::uint64_t NetworkChunks::count_for(const Peer& peer, std::uint64_t bytes) const {
  const std::uint64_t whole = network_cut_from(peer.eager_limit, links_.settings().gpu_chunk) / 2;
  return std::max<std::uint64_t>(bytes / whole, 1);
}

NetworkChunks::Slot NetworkChunks::take_slot(cuda::Device device, std::uint64_t bytes) {
  if (!std::exchange(registered_, true)) gpu_.made()->exports().add(*this);
  Slot slot;
  if (bytes <= pool_limits.most) {
    PinnedPool& pool =
        pools_.try_emplace(device, gpu_.made()->copies().contexts(), device, pool_limits).first->second;
    auto pinned = pool.take(bytes);
    if (pinned && pinned->size() >= bytes) {
      slot.pinned = std::move(*pinned);
      slot.memory = slot.pinned.span().first(bytes);
      return slot;
    }
    if (!std::exchange(complained_of_memory_, true) && links_.settings().warn)
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

NetworkChunks::Operations::iterator NetworkChunks::find_operation(network::Token token) {
  if (static_cast<std::uint32_t>(token) != chunk_mark) return operations_.end();
  return operations_.find(static_cast<std::uint32_t>(token >> 32U));
}

std::optional<NetworkChunks::Operation> NetworkChunks::end_operation(network::Token token) {
  const auto found = find_operation(token);
  if (found == operations_.end()) return std::nullopt;
  Operation operation = std::move(found->second);
  operations_.erase(found);
  return operation;
}

// --- the sender's side

Request* NetworkChunks::send(Peer& peer, const Target& target, std::unique_ptr<GpuPart> part, SendMode mode) {
  const std::uint64_t bytes = part->payload.bytes;
  const std::uint64_t chunks = count_for(peer, bytes);
  network_.port()->make_room();
  Request* send = completion_.make_send(target, part->payload, mode);
  Outgoing* out = nullptr;
  try {
    out =
        &outgoing_
             .insert_or_assign(
                 send->cookie(),
                 Outgoing{
                     .peer = &peer, .send = send->cookie(), .chunks = chunks, .bytes = bytes, .copying = {}})
             .first->second;
  } catch (...) {
    completion_.drop(send);
    throw;
  }
  const auto header = network_header(wire::NetworkKind::chunked, target, bytes, send->cookie());
  const auto told = network_.send(peer.id, header, {}, chunk_mark);
  send->peer = &peer;
  send->transfer = Request::Transfer::chunks;
  send->gpu = std::move(part);
  if (!told) out->failed = ErrorClass::proc_aborted;
  peer.traffic.add_sent(Protocol::network_chunks, bytes);
  try {
    advance(*out);
  } catch (const std::bad_alloc&) {
    return send;  // it has begun; `poll` goes on with it
  }
  return send;
}

void NetworkChunks::cut(Peer& peer, wire::Cookie sender) {
  Request* send = completion_.find(sender);
  if (!send || send->kind != Request::Kind::send || send->peer != &peer || send->complete ||
      outgoing_.contains(sender) || send->parts_left != 1 || send->payload.bytes <= peer.eager_limit)
    return links_.malformed(peer, "asks for chunks of a send that is not pending");
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
  ++send->parts_left;
}

/// All equal, or one byte longer, so that the last is not a short one.
std::uint64_t NetworkChunks::next_chunk(const Outgoing& out) noexcept {
  return out.bytes / out.chunks + (out.index < out.bytes % out.chunks ? 1 : 0);
}

/// The next chunk is on its way.
void NetworkChunks::has_begun(Outgoing& out, std::uint64_t bytes) noexcept {
  ++out.index;
  out.begun += bytes;
}

/// Begins a copy from or to `slot`, and adds it to those of a message.
Result<> NetworkChunks::copy(std::deque<Copying>& copying, Slot slot, const Buffer& near,
                             GpuCopies::Direction direction, const CopyPiece& piece) {
  copying.push_back({PendingCopy(), std::move(slot), piece.bytes});
  try {
    auto begun = gpu_.made()->copies().stage(near, direction, piece);
    if (begun) {
      copying.back().copy = std::move(*begun);
      ++copying_;
      return {};
    }
    copying.pop_back();
    return std::unexpected(std::move(begun).error());
  } catch (...) {
    copying.pop_back();
    throw;
  }
}

/// Begins the copy of the next chunk.
bool NetworkChunks::copy_out(Outgoing& out) {
  const Request& send = *completion_.find(out.send);
  const std::uint64_t bytes = next_chunk(out);
  const Buffer& near = send.gpu->buffer;
  Slot slot = take_slot(near.device, bytes);
  std::byte* const to = slot.memory.data();
  const Result<> copied = copy(out.copying, std::move(slot), near, GpuCopies::Direction::to_host,
                               {to, send.gpu->payload.data + out.begun, bytes});
  if (!copied) {
    fail(out.failed, copied.error());
    return false;
  }
  has_begun(out, bytes);
  return true;
}

/// Gives a chunk to the network, which keeps its memory if it has to. Without memory nothing has happened.
void NetworkChunks::offer(Outgoing& out, std::span<const std::byte> chunk, Slot& slot) {
  network_.port()->make_room();
  const auto header = network_header(wire::NetworkKind::chunk, {}, chunk.size(), out.send);
  const network::Token token = begin_operation({.key = {out.peer->id, out.send}, .slot = {}});
  const auto progress = network_.send(out.peer->id, header, chunk, token);
  if (progress && *progress == network::Port::Progress::pending) {
    find_operation(token)->second.slot = std::move(slot);
    ++out.under_way;
    return;
  }
  if (!progress) out.failed = ErrorClass::proc_aborted;
  end_operation(token);
}

unsigned NetworkChunks::advance(Outgoing& out) {
  unsigned happened = 0;
  while (!out.failed && out.begun < out.bytes && out.copying.size() + out.under_way < depth) {
    if (!out.host && !copy_out(out)) break;
    if (!out.host) continue;
    const std::uint64_t bytes = next_chunk(out);
    Slot none;
    offer(out, {out.host + out.begun, bytes}, none);
    has_begun(out, bytes);
    ++happened;
  }
  while (!out.copying.empty()) {
    const Result<bool> done = out.copying.front().copy.is_done();
    if (done && !*done) break;
    if (!done) fail(out.failed, done.error());
    Slot& slot = out.copying.front().slot;
    if (!out.failed) offer(out, slot.memory, slot);
    out.copying.pop_front();
    --copying_;
    ++happened;
  }
  return happened;
}

bool NetworkChunks::is_over(const Outgoing& out) noexcept {
  return out.under_way == 0 && out.copying.empty() && (out.failed || out.begun == out.bytes);
}

/// Without memory it is to be called again.
void NetworkChunks::finish(const Outgoing& out) {
  Request* send = completion_.find(out.send);
  if (!send) return;
  if (out.failed) {
    send->status.error = static_cast<int>(*out.failed);
    const auto header = network_header(wire::NetworkKind::chunk, {}, 0, out.send);
    // Where it does not arrive, the peer hears of the loss.
    [[maybe_unused]] const auto told = network_.send(out.peer->id, header, {}, chunk_mark);
  }
  // The whole has been offered, too.
  if (out.is_cut) return sends_.end_part(*send);
  completion_.finish(*send);
}

bool NetworkChunks::sent(network::Token token, const Error* error) {
  auto operation = end_operation(token);
  if (!operation) return static_cast<std::uint32_t>(token) == chunk_mark;
  const auto found = outgoing_.find(operation->key.second);
  if (found == outgoing_.end()) return true;
  --found->second.under_way;
  if (error) found->second.failed = ErrorClass::proc_aborted;
  return true;
}

// --- the receiver's side

void NetworkChunks::announced(Peer& peer, const wire::NetworkHeader& header) {
  const Key key{peer.id, header.sender};
  if (header.bytes == 0 || incoming_.contains(key))
    return links_.malformed(peer, "message in chunks that cannot be");
  MatchContext& context = matcher_.context(header.context);
  if (peer.held ||
      (!context.is_source(header.source) && !unexpected_.may_be_early(peer, context, header.source)))
    return;
  const auto made =
      incoming_
          .emplace(
              key,
              Incoming{.peer = &peer, .bytes = header.bytes, .waiting = {}, .copying = {}, .receive = {}})
          .first;
  if (Request* receive = matcher_.match(context, header.source, header.tag))
    return match(peer, *receive, header.source, header.tag, header.bytes, header.sender);
  constexpr auto content = UnexpectedMessage::Content::remote_chunks;
  const UnexpectedMessages::Envelope envelope{header.context, header.source, header.tag, header.bytes};
  try {
    const UnexpectedMessages::Awaited awaited{.content = content, .sender = header.sender};
    if (unexpected_.refuse(peer, context, envelope, awaited)) return;
    unexpected_.keep_offer(peer, context, envelope, awaited, UnexpectedMessage::InChunks{});
  } catch (...) {
    incoming_.erase(made);
    throw;
  }
}

void NetworkChunks::match(Peer& peer, Request& receive, int source, int tag, std::uint64_t bytes,
                          wire::Cookie sender) {
  receive.assign(&peer, source, tag, bytes);
  completion_.carry(receive);
  const auto found = incoming_.find({peer.id, sender});
  if (found == incoming_.end()) {
    receive.status.error = static_cast<int>(ErrorClass::proc_aborted);
    return completion_.finish(receive);
  }
  if (receive.payload.type) {
    try {
      receive.staging = std::make_unique_for_overwrite<std::byte[]>(receive.limit);
    } catch (const std::bad_alloc&) {
      // It has been matched, so it ends here, and its sender goes on.
      found->second.declined = true;
      receive.status.bytes = 0;
      return completion_.end_in_error(receive, ErrorClass::no_mem);
    }
  }
  count_received(peer, receive, Protocol::network_chunks, receive.limit);
  receive.transfer = Request::Transfer::chunks;
  found->second.receive = receive.cookie();
}

bool NetworkChunks::try_fetch(Peer& peer, Request& receive, const NetworkOffer& offer, Protocol way) {
  const Key key{peer.id, offer.sender};
  if (receive.limit == 0 || !is_landed_by_gpu(receive) || incoming_.contains(key) || !network_.connect(peer))
    return false;
  const bool is_cut = way == Protocol::network_chunks;
  network_.port()->make_room();
  Incoming in{.peer = &peer, .bytes = offer.bytes, .waiting = {}, .copying = {}, .receive = receive.cookie()};
  if (is_cut) {
    in.whole = offer.id;
  } else {
    in.waiting.push_back({offer.id, 0, offer.bytes});
    in.seen = offer.bytes;
  }
  const auto made = incoming_.emplace(key, std::move(in)).first;
  // Last: the chunks that it asks for are for this receive.
  const auto header = network_header(wire::NetworkKind::cut, {}, 0, offer.sender);
  if (is_cut && !network_.send(peer.id, header, {}, chunk_mark)) {
    incoming_.erase(made);
    return false;
  }
  count_received(peer, receive, way, receive.limit);
  receive.transfer = Request::Transfer::chunks;
  return true;
}

void NetworkChunks::decline(Peer& peer, wire::Cookie sender) {
  const auto found = incoming_.find({peer.id, sender});
  if (found != incoming_.end()) found->second.declined = true;
}

void NetworkChunks::broken_off(Peer& peer, wire::Cookie sender) {
  const auto found = incoming_.find({peer.id, sender});
  if (found == incoming_.end()) return links_.malformed(peer, "end of no message");
  found->second.failed = ErrorClass::other;
  found->second.seen = found->second.bytes;
}

void NetworkChunks::offered(Peer& peer, const wire::NetworkHeader& header, std::uint64_t bytes,
                            network::OfferId offer) {
  const auto found = incoming_.find({peer.id, header.sender});
  const bool fits =
      found != incoming_.end() && bytes != 0 && bytes <= found->second.bytes - found->second.seen;
  if (!fits) {
    links_.malformed(peer, "chunk of no message");
    return network_.decline(peer, offer);
  }
  Incoming& in = found->second;
  in.waiting.push_back({offer, in.seen, bytes});
  in.seen += bytes;
}

unsigned NetworkChunks::advance(const Key& key, Incoming& in) {
  unsigned happened = 0;
  Request* const receive = in.receive ? completion_.find(*in.receive) : nullptr;
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
    if (bytes == 0)
      network_.decline(*in.peer, offer.id);
    else
      fetch(key, in, offer, *receive, bytes);
    in.waiting.pop_front();
    ++happened;
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
    std::byte* const whole = receive.staging ? receive.staging.get() : receive.cpu_destination().data;
    to = {whole + offer.offset, bytes};
  }
  // Where that fails, the fetch reports it.
  [[maybe_unused]] const auto connected = network_.connect(*in.peer);
  const network::Token token = begin_operation(std::move(operation));
  try {
    network_.port()->fetch(offer.id, to, token);
  } catch (...) {
    end_operation(token);
    throw;
  }
  ++in.under_way;
}

bool NetworkChunks::fetched(network::Token token, const Error* error) {
  auto operation = end_operation(token);
  if (!operation) return static_cast<std::uint32_t>(token) == chunk_mark;
  const auto found = incoming_.find(operation->key);
  if (found == incoming_.end()) return true;
  Incoming& in = found->second;
  --in.under_way;
  if (error) in.failed = ErrorClass::proc_aborted;
  Request* const receive = in.receive ? completion_.find(*in.receive) : nullptr;
  if (receive && !in.failed && is_landed_by_gpu(*receive)) land(in, *operation, *receive);
  return true;
}

/// From pinned memory to where it belongs.
void NetworkChunks::land(Incoming& in, Operation& operation, Request& receive) {
  const GpuPart& part = *receive.gpu;
  std::byte* const from = operation.slot.memory.data();
  try {
    const Result<> copied =
        copy(in.copying, std::move(operation.slot), part.buffer, GpuCopies::Direction::from_host,
             {part.payload.data + operation.offset, from, operation.bytes});
    if (!copied) fail(in.failed, copied.error());
  } catch (const std::bad_alloc&) {
    in.failed = ErrorClass::no_mem;
  }
}

bool NetworkChunks::is_over(const Incoming& in) noexcept {
  const bool is_wanted = in.receive || in.declined;
  return is_wanted && in.under_way == 0 && in.copying.empty() && in.waiting.empty() &&
         (in.seen == in.bytes || in.peer->lost);
}

/// Without memory it is to be called again.
void NetworkChunks::finish(const Incoming& in) {
  if (in.whole != 0) network_.decline(*in.peer, in.whole);
  Request* receive = in.receive ? completion_.find(*in.receive) : nullptr;
  if (!receive) return;
  if (in.failed || in.seen < in.bytes) {
    receive->status.error = static_cast<int>(in.failed.value_or(ErrorClass::other));
    if (receive->gpu) receive->gpu->landed = true;
  } else if (receive->staging) {
    Cursor cursor(*receive->payload.type, receive->payload.data, receive->payload.count);
    cursor.unpack({receive->staging.get(), receive->limit});
  } else if (is_landed_by_gpu(*receive)) {
    receive->gpu->landed = true;
  }
  completion_.finish(*receive);
}

void NetworkChunks::lost(const Peer& peer) {
  for (auto& [key, in] : incoming_)
    if (in.peer == &peer) in.failed = ErrorClass::proc_aborted;
  for (auto& [send, out] : outgoing_)
    if (out.peer == &peer) out.failed = ErrorClass::proc_aborted;
}

// --- progress

unsigned NetworkChunks::poll() {
  unsigned happened = 0;
  for (auto next = outgoing_.begin(); next != outgoing_.end();) {
    const auto each = next++;
    happened += advance(each->second);
    if (!is_over(each->second)) continue;
    finish(each->second);
    outgoing_.erase(each);
    ++happened;
  }
  for (auto next = incoming_.begin(); next != incoming_.end();) {
    const auto each = next++;
    happened += advance(each->first, each->second);
    if (!is_over(each->second)) continue;
    finish(each->second);
    incoming_.erase(each);
    ++happened;
  }
  return happened;
}

}  // namespace isthmus
