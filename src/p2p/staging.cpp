#include "p2p/staging.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "base/stream_copy.hpp"
#include "p2p/engine.hpp"

namespace isthmus {
namespace {

/// What two processors copy through, in chunks of a quarter of it, so that they stay in their cache: 64 MiB
/// through 1 MiB went at 23 GB/s, through 4 MiB at 15 (Sapphire Rapids). With a GPU at one end there is
/// nothing to stay there for: see `copy_past_cache`.
constexpr std::uint32_t short_window = 1024 * 1024;
/// The least that a GPU's copies are given where pinned memory is short.
constexpr std::uint32_t least_window = 256 * 1024;
/// Of a GPU, under way at a time.
constexpr std::size_t most_chunks = 8;

bool goes_by_gpu(const Request& request) {
  return request.gpu && request.gpu->is_one_copy();
}

/// The next bytes of a request, by the processor. `to_gpu`: a GPU takes them up.
void copy_out(Request& send, std::uint64_t offset, std::span<std::byte> to, bool to_gpu) {
  if (send.payload.type) {
    if (offset == 0)
      send.cursor = std::make_unique<Cursor>(*send.payload.type, send.payload.data, send.payload.count);
    send.cursor->pack(to);
  } else {
    const std::byte* const from = send.payload.data + offset;
    if (to_gpu)
      copy_past_cache(to.data(), from, to.size());
    else
      std::memcpy(to.data(), from, to.size());
  }
}

void copy_in(Request& receive, std::uint64_t offset, std::span<const std::byte> from) {
  const Payload& payload = receive.landing();
  if (payload.type) {
    if (offset == 0) receive.cursor = std::make_unique<Cursor>(*payload.type, payload.data, payload.count);
    receive.cursor->unpack(from);
  } else {
    copy_past_cache(payload.data + offset, from.data(), from.size());
  }
}

}  // namespace

// --- asking

void Staging::request(Peer& peer, Request& receive, wire::Cookie sender, bool lacks_memory) {
  receive.transfer = Request::Transfer::staged;
  const wire::StageRequest wanted{.sender = sender,
                                  .receiver = receive.cookie(),
                                  .bytes = receive.limit,
                                  .by_processor = goes_by_gpu(receive) ? 0U : 1U,
                                  .lacks_memory = lacks_memory ? 1U : 0U};
  engine_.send_control(peer, wire::CellKind::stage, &wanted, sizeof wanted);
}

void Staging::start(Peer& peer, const wire::StageRequest& wanted) {
  Request* send = engine_.requests_.find(wanted.sender);
  if (!send || send->kind != Request::Kind::send || send->peer != &peer || send->complete || send->unsent ||
      send->transfer != Request::Transfer::none || wanted.bytes == 0 || wanted.bytes > send->payload.bytes)
    return engine_.malformed(peer, "asks for chunks of a send that is not pending");
  if (wanted.lacks_memory != 0 && send->gpu && engine_.gpu_) engine_.gpu_->untell(peer, *send);
  send->transfer = Request::Transfer::staged;
  if (send->gpu)
    if (const Result<> packed = engine_.gpu_->pack_late(*send); !packed)
      return fail_send(peer, *send, wanted.receiver, packed.error());
  Stream& out = out_[&peer];
  out.messages.push_back({.request = wanted.sender,
                          .receiver = wanted.receiver,
                          .bytes = wanted.bytes,
                          .to_gpu = wanted.by_processor == 0});
  ++under_way_;
  fill(peer, out);
}

// --- the sender's side

unsigned Staging::fill(Peer& peer, Stream& out) {
  unsigned happened = settle_filled(peer, out);
  while (out.begun < out.messages.size()) {
    Message& message = out.messages[out.begun];
    Request& send = *engine_.requests_.find(message.request);
    if (!message.is_told && !tell(peer, out, message, send)) return happened;
    const std::size_t before = out.begun;
    happened += fill_chunks(peer, out, message, send);
    if (out.begun == before) return happened;
  }
  return happened;
}

unsigned Staging::settle_filled(Peer& peer, Stream& out) {
  unsigned happened = 0;
  while (!out.chunks.empty()) {
    const Result<bool> done = out.chunks.front().copy.is_done();
    if (done && !*done) break;
    ++happened;
    if (!done) {
      end_send(peer, out, 0, &done.error());
      continue;
    }
    const std::uint64_t end = out.chunks.front().end;
    const bool is_last = out.chunks.front().is_last;
    out.chunks.pop_front();
    publish(peer, out.area.header().filled, end);
    if (is_last) end_send(peer, out, 0, nullptr);
  }
  return happened;
}

/// Tells the receiver where the message is in the stream; false while what is before it is in the way, or if
/// it has failed.
bool Staging::tell(Peer& peer, Stream& out, Message& message, const Request& send) {
  if (!out.area.is_there()) {
    auto area = StagingArea::take(engine_.region_.heap());
    if (!area) {
      end_send(peer, out, out.begun, &area.error());
      return false;
    }
    out.area = std::move(*area);
  }
  if (!open(out, message, send)) return false;
  message.window = out.window;
  message.position = out.position;
  message.is_told = true;
  out.position = wire::staging_end(message.position, message.bytes);
  const wire::StageStart start{.receiver = message.receiver,
                               .area = out.area.offset(),
                               .position = message.position,
                               .bytes = out.area.bytes(),
                               .window = message.window};
  engine_.send_control(peer, wire::CellKind::staged, &start, sizeof start);
  return true;
}

/// Makes the window right for a message. What is in the window must have been emptied before it is changed.
bool Staging::open(Stream& out, const Message& message, const Request& send) {
  const std::uint32_t most = out.area.largest_window();
  const bool is_long = (message.to_gpu || goes_by_gpu(send)) && message.bytes > short_window;
  std::uint32_t window = is_long ? most : std::min(most, short_window);
  const bool is_ready =
      out.window == window && (!goes_by_gpu(send) || out.area.pinned() >= out.area.part(window).size());
  if (is_ready) return true;
  const bool is_empty =
      out.chunks.empty() && out.area.header().emptied.load(std::memory_order_acquire) == out.position;
  if (!is_empty) return false;
  if (goes_by_gpu(send))
    while (!pin(out, send, window) && window > least_window)
      window = std::max(window / 4 / least_window * least_window, least_window);
  out.window = window;
  return true;
}

unsigned Staging::fill_chunks(Peer& peer, Stream& out, Message& message, Request& send) {
  const bool by_gpu = goes_by_gpu(send);
  unsigned happened = 0;
  while (message.begun < message.bytes && out.chunks.size() < most_chunks) {
    const std::uint64_t position = message.position + message.begun;
    const std::uint32_t bytes = wire::staging_chunk(message.bytes, message.begun, position, message.window);
    const std::uint64_t emptied = out.area.header().emptied.load(std::memory_order_acquire);
    if (position + bytes - emptied > message.window || (!by_gpu && !out.chunks.empty())) return happened;
    std::byte* const to = out.area.at(position, message.window);
    const std::uint64_t offset = std::exchange(message.begun, message.begun + bytes);
    const bool is_last = message.begun == message.bytes;
    ++happened;
    if (by_gpu) {
      auto copy = engine_.gpu_->stage(send.gpu->buffer, GpuMessages::Direction::to_host,
                                      {.to = to, .from = send.gpu->payload.data + offset, .bytes = bytes});
      if (!copy) {
        end_send(peer, out, out.begun, &copy.error());
        return happened;
      }
      out.chunks.push_back({std::move(*copy), position + bytes, is_last});
      if (is_last) ++out.begun;
      continue;
    }
    copy_out(send, offset, {to, bytes}, message.to_gpu);
    publish(peer, out.area.header().filled, position + bytes);
    if (is_last) end_send(peer, out, out.begun, nullptr);
    return happened;  // one at a time, so that the rest of this rank's work goes on
  }
  return happened;
}

void Staging::publish(Peer& peer, std::atomic<std::uint64_t>& counter, std::uint64_t position) {
  counter.store(position, std::memory_order_release);
  engine_.notify(peer.id);
}

/// A message has left, or cannot because of `why`.
void Staging::end_send(Peer& peer, Stream& out, std::size_t index, const Error* why) {
  const Message message = out.messages[index];
  if (why) {
    // The chunks of those before it stand in front.
    std::size_t kept = 0;
    for (std::size_t before = index; before > 0; ++kept)
      before -= out.chunks[kept].is_last ? 1 : 0;
    while (out.chunks.size() > kept && !out.chunks[kept].is_last)
      out.chunks.erase(out.chunks.begin() + static_cast<std::ptrdiff_t>(kept));
    if (out.chunks.size() > kept) out.chunks.erase(out.chunks.begin() + static_cast<std::ptrdiff_t>(kept));
  }
  out.messages.erase(out.messages.begin() + static_cast<std::ptrdiff_t>(index));
  if (index < out.begun) --out.begun;
  --under_way_;
  Request& send = *engine_.requests_.find(message.request);
  if (why) return fail_send(peer, send, message.receiver, *why);
  peer.traffic.add_sent(Protocol::gpu_staged, message.bytes);
  engine_.finish(send);
}

void Staging::fail_send(Peer& peer, Request& send, wire::Cookie receiver, const Error& why) {
  const wire::GpuEnd end{.receiver = receiver, .outcome = wire::GpuOutcome::failed, .reserved = 0};
  engine_.send_control(peer, wire::CellKind::gpu_end, &end, sizeof end);
  complain(why);
  send.status.error = static_cast<int>(why.error_class());
  engine_.finish(send);
}

// --- the receiver's side

void Staging::begin(Peer& peer, const wire::StageStart& start) {
  Request* receive = engine_.requests_.find(start.receiver);
  if (!receive || receive->kind != Request::Kind::receive || receive->peer != &peer || receive->complete ||
      receive->transfer != Request::Transfer::staged)
    return engine_.malformed(peer, "chunks that no receive waits for");
  Stream& in = in_[&peer];
  const bool is_known = std::ranges::any_of(
      in.messages, [&start](const Message& message) { return message.request == start.receiver; });
  if (is_known) return engine_.malformed(peer, "chunks of a message that has begun");
  if (!in.area.is_there() || in.area.offset() != start.area || in.area.bytes() != start.bytes) {
    auto area = StagingArea::at(engine_.region_.heap(), start.area, start.bytes);
    if (!area || !in.messages.empty()) return engine_.malformed(peer, "chunks outside of the shared memory");
    in.area = std::move(*area);
  }
  if (start.window < wire::least_window || start.window > in.area.largest_window())
    return engine_.malformed(peer, "chunks outside of their memory");
  // Copies through pinned memory must be over before more of it is pinned; an honest sender has seen to it.
  if (goes_by_gpu(*receive) && in.chunks.empty()) pin(in, *receive, start.window);
  in.messages.push_back({.request = start.receiver,
                         .bytes = receive->limit,
                         .position = start.position,
                         .window = start.window});
  ++under_way_;
  empty(peer, in);
}

unsigned Staging::empty(Peer& peer, Stream& in) {
  unsigned happened = settle_emptied(peer, in);
  while (in.begun < in.messages.size()) {
    Message& message = in.messages[in.begun];
    if (message.abandoned) {
      if (!in.chunks.empty()) return happened;
      end_receive(peer, in);
      continue;
    }
    const std::size_t before = in.begun;
    const std::size_t messages = in.messages.size();
    happened += empty_chunks(peer, in, message, *engine_.requests_.find(message.request));
    if (in.begun == before && in.messages.size() == messages) return happened;
  }
  return happened;
}

unsigned Staging::settle_emptied(Peer& peer, Stream& in) {
  unsigned happened = 0;
  while (!in.chunks.empty()) {
    const Result<bool> done = in.chunks.front().copy.is_done();
    if (done && !*done) break;
    ++happened;
    if (!done) {
      complain(done.error());
      in.messages.front().failed = true;
    }
    const std::uint64_t end = in.chunks.front().end;
    const bool is_last = in.chunks.front().is_last;
    in.chunks.pop_front();
    if (is_last)
      end_receive(peer, in);
    else
      publish(peer, in.area.header().emptied, end);
  }
  return happened;
}

unsigned Staging::empty_chunks(Peer& peer, Stream& in, Message& message, Request& receive) {
  const bool by_gpu = goes_by_gpu(receive) && !message.failed;
  unsigned happened = 0;
  while (message.begun < message.bytes && in.chunks.size() < most_chunks) {
    const std::uint64_t position = message.position + message.begun;
    const std::uint32_t bytes = wire::staging_chunk(message.bytes, message.begun, position, message.window);
    const std::uint64_t filled = in.area.header().filled.load(std::memory_order_acquire);
    const bool has_come = static_cast<std::int64_t>(filled - (position + bytes)) >= 0;
    if (!has_come || (!by_gpu && !in.chunks.empty())) return happened;
    const std::byte* const from = in.area.at(position, message.window);
    const std::uint64_t offset = std::exchange(message.begun, message.begun + bytes);
    const bool is_last = message.begun == message.bytes;
    ++happened;
    if (by_gpu) {
      std::byte* const to = receive.gpu->payload.data + offset;
      auto copy = engine_.gpu_->stage(receive.gpu->buffer, GpuMessages::Direction::from_host,
                                      {.to = to, .from = from, .bytes = bytes});
      if (copy) {
        in.chunks.push_back({std::move(*copy), position + bytes, is_last});
        if (is_last) ++in.begun;
        continue;
      }
      complain(copy.error());
      message.failed = true;
      message.begun = offset;
      return happened;
    }
    if (!message.failed) copy_in(receive, offset, {from, bytes});
    if (is_last)
      end_receive(peer, in);
    else
      publish(peer, in.area.header().emptied, position + bytes);
    return happened;
  }
  return happened;
}

/// The first message has arrived, or is lost.
void Staging::end_receive(Peer& peer, Stream& in) {
  const Message message = in.messages.front();
  in.messages.pop_front();
  if (in.begun > 0) --in.begun;
  --under_way_;
  publish(peer, in.area.header().emptied, wire::staging_end(message.position, message.bytes));
  Request& receive = *engine_.requests_.find(message.request);
  const bool is_lost = message.failed || message.abandoned;
  if (receive.gpu && (goes_by_gpu(receive) || is_lost)) receive.gpu->landed = true;
  if (is_lost) {
    receive.status.bytes = 0;
    receive.status.error = static_cast<int>(ErrorClass::other);
  } else {
    peer.traffic.add_received(Protocol::gpu_staged, message.bytes);
  }
  engine_.finish(receive);
}

void Staging::abandon(Peer& peer, Request& receive) {
  Stream& in = in_[&peer];
  for (Message& message : in.messages) {
    if (message.request != receive.cookie()) continue;
    message.abandoned = true;
    empty(peer, in);
    return;
  }
  if (receive.gpu) receive.gpu->landed = true;
  receive.status.bytes = 0;
  receive.status.error = static_cast<int>(ErrorClass::other);
  engine_.finish(receive);
}

// --- both

unsigned Staging::poll() {
  if (under_way_ == 0) return 0;
  unsigned happened = 0;
  for (auto& [peer, out] : out_)
    if (!out.messages.empty()) happened += fill(*peer, out);
  for (auto& [peer, in] : in_)
    if (!in.messages.empty()) happened += empty(*peer, in);
  return happened;
}

/// Pins what a stream of that window goes through. Without that the driver copies by way of memory of its
/// own.
bool Staging::pin(Stream& stream, const Request& request, std::uint32_t window) {
  const std::span<std::byte> part = stream.area.part(window);
  if (stream.area.pinned() >= part.size()) return true;
  stream.area.unpin();
  auto pinned = engine_.gpu_->pin(request.gpu->buffer, part);
  if (!pinned) {
    complain(pinned.error());
    return false;
  }
  stream.area.keep(std::move(*pinned));
  return true;
}

void Staging::complain(const Error& error) {
  if (!std::exchange(complained_, true) && engine_.settings_.warn) warn(error.text());
}

}  // namespace isthmus
