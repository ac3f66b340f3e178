#include "p2p/protocol/gpu/staging.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/link/links.hpp"
#include "p2p/protocol/gpu/access.hpp"

namespace isthmus {

using Direction = GpuCopies::Direction;

namespace {

/// What two processors copy through, in chunks of a quarter of it, so that they stay in their cache: 64 MiB
/// through 1 MiB went at 23 GB/s, through 4 MiB at 15 (Sapphire Rapids). With a GPU at one end there is
/// nothing to stay there for: see `copy_past_cache`.
constexpr std::uint32_t short_window = 1024 * 1024;
/// What messages go through in small chunks, of up to a quarter of it.
constexpr std::uint32_t fine_window = 2 * 1024 * 1024;
/// The least that a GPU's copies are given where pinned memory is short.
constexpr std::uint32_t least_window = 256 * 1024;
/// Messages up to this size go together with others that wait through a window.
constexpr std::uint64_t longest_in_window = std::uint64_t{1} << 20U;
/// At most, of one direction: messages that are under way together with others, and bytes that one copy takes
/// through memory of the host.
constexpr std::size_t most_short = 64;
constexpr std::uint64_t most_together_bytes = std::uint64_t{256} << 10U;
/// The first chunk of a message through a window; each after it is up to twice as long as all before
/// together, and half of the window. A processor takes 6 us to start one and to see that it is over, so few
/// are better: 16 / 64 MiB took 77 / 225 us so, 83 / 252 with at most a quarter of the window, 86 / 257 with
/// a first one of 512 KiB besides, and 117 / 272 with as many small ones at the end as at the beginning (2 x
/// H200, memory of a default pool). GPUs that wait for each other's chunks by memory operations of their
/// streams, which the processors put there ahead, gained nothing (91 / 271 against 89 / 282 us, 2 x H100): a
/// stream that turns from such an operation to a copy and back stands still for 15 us. Kernels that copy
/// and meet by words (64 blocks at each side, parts of 128 KiB) took 65 / 216 us in a probe, against 90 / 251
/// us of its copy engines, and 23 us for 1 MiB, where these take less: a fifth of long messages for an eighth
/// of both GPUs' threads. They were not built.
constexpr std::uint64_t first_in_window = std::uint64_t{1} << 20U;

/// Whose processors help a rank to copy, and how many of them.
std::unique_ptr<CopyCrew> make_crew(const Links& links) {
  const std::optional<std::uint32_t> wanted = links.settings().copy_threads;
  const CpuSet& spare = links.job().spare_cpus;
  if (!spare.empty()) return std::make_unique<CopyCrew>(spare, wanted.value_or(spare.size()));
  auto here = CpuSet::affinity();
  if (!here) return std::make_unique<CopyCrew>(CpuSet(), 0);
  // Who is bound to nothing shares what there is with the others.
  const std::size_t ranks = links.job().members.size();
  const std::size_t left = here->size() > ranks && !links.peers_sleep() ? here->size() - ranks : 0;
  const std::size_t share = wanted.value_or(left / ranks);
  return std::make_unique<CopyCrew>(std::move(*here), share);
}

}  // namespace

void Staging::copy_by_processors(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (!crew_) crew_ = make_crew(links_);
  crew_->copy(to, from, bytes);
}

/// The next bytes of a request, by the processor. `to_gpu`: a GPU takes them up.
void Staging::copy_out(Request& send, std::uint64_t offset, std::span<std::byte> to, bool to_gpu) {
  if (send.payload.type) {
    if (offset == 0) send.cursor.emplace(*send.payload.type, send.payload.data, send.payload.count);
    send.cursor->pack(to);
  } else {
    const std::byte* const from = send.payload.data + offset;
    if (to_gpu)
      copy_by_processors(to.data(), from, to.size());
    else
      std::memcpy(to.data(), from, to.size());
  }
}

bool Staging::goes_by_gpu(const Request& request) noexcept {
  return request.gpu && request.gpu->is_one_copy();
}

Buffer Staging::side_of(const Request& request, cuda::Device device) {
  if (goes_by_gpu(request)) {
    Buffer near = request.gpu->buffer;
    near.data = request.gpu->payload.data;
    return near;
  }
  return {.data = request.payload.data, .bytes = request.payload.bytes, .device = device};
}

// --- asking

void Staging::request(Peer& peer, Request& receive, wire::Cookie sender, Wanted wanted) {
  const cuda::Device device = wanted.way == Protocol::gpu_bounce ? device_for(receive) : cuda::no_device;
  links_.prepare_answer(peer);
  if (device != cuda::no_device) wanted_[receive.cookie()] = device;
  receive.transfer = Request::Transfer::staged;
  receive.peer_cookie = sender;
  ask(peer, receive, wanted, device == cuda::no_device ? wire::StageWindow::none : wire::StageWindow::wanted);
}

/// The device that a receive has asked for a window with; none where it has not.
cuda::Device Staging::wanted_for(const Request& receive) const {
  const auto found = wanted_.find(receive.cookie());
  return found == wanted_.end() ? cuda::no_device : found->second;
}

/// The device that copies the bytes of a request through a window; none where it cannot go so: its bytes have
/// gaps, are pageable, or may move, or the process uses no GPU.
cuda::Device Staging::device_for(const Request& request) const {
  if (!gpu_.made()) return cuda::no_device;
  if (goes_by_gpu(request)) return request.gpu->buffer.device;
  const bool is_pinned = !request.gpu && !request.payload.type && request.memory == MemoryKind::pinned;
  return is_pinned ? gpu_.made()->copies().last_device() : cuda::no_device;
}

void Staging::ask(Peer& peer, const Request& receive, Wanted so, wire::StageWindow window) {
  const wire::StageRequest wanted{.sender = receive.peer_cookie,
                                  .receiver = receive.cookie(),
                                  .bytes = receive.limit,
                                  .by_processor = static_cast<std::uint16_t>(goes_by_gpu(receive) ? 0 : 1),
                                  .lacks_memory = static_cast<std::uint8_t>(so.lacks_memory ? 1 : 0),
                                  .chunks = so.chunks,
                                  .window = window,
                                  .device = static_cast<std::uint16_t>(std::max(wanted_for(receive), 0))};
  links_.send_control(peer, wire::CellKind::stage, &wanted, sizeof wanted);
}

void Staging::resolve_window(Peer& peer, std::uint32_t number, const wire::GpuWindow& told,
                             const wire::GpuExport& what) {
  Request* receive = completion_.find(told.receiver);
  if (!receive || receive->kind != Request::Kind::receive || receive->peer != &peer || receive->complete ||
      receive->transfer != Request::Transfer::staged || wanted_for(*receive) == cuda::no_device ||
      number == 0 || number > wire::most_windows)
    return links_.malformed(peer, "a window that no receive waits for");
  const wire::StageWindow window = gpu_.made()->windows().open(peer, number, what, wanted_for(*receive));
  if (window != wire::StageWindow::open) gpu_.made()->lives().given_up(receive->gpu_mark);
  ask(peer, *receive, {.way = Protocol::gpu_bounce, .lacks_memory = false}, window);
}

void Staging::start(Peer& peer, const wire::StageRequest& wanted) {
  Request* send = completion_.find(wanted.sender);
  if (!send || send->kind != Request::Kind::send || send->peer != &peer || send->complete || send->unsent ||
      send->transfer != Request::Transfer::none || wanted.bytes == 0 || wanted.bytes > send->payload.bytes)
    return links_.malformed(peer, "asks for chunks of a send that is not pending");
  links_.prepare_answer(peer);
  if (wanted.lacks_memory != 0 && send->gpu && gpu_.made())
    gpu_.made()->exports().of(peer).forget(send->gpu->buffer.allocation);
  if (send->gpu)
    if (const Result<> packed = gpu_.made()->pack_late(*send); !packed) {
      send->transfer = Request::Transfer::staged;
      return fail_send(peer, *send, wanted.receiver, packed.error());
    }
  std::optional<WindowTable::Passage> passage(std::in_place);
  const cuda::Device device = device_for(*send);
  if (device != cuda::no_device) passage = gpu_.made()->windows().passage_to(peer, device, wanted);
  if (!passage) return;
  // Pageable memory takes this way whatever the other side lies in.
  const bool is_setback = (wanted.by_processor == 0 || wanted.window != wire::StageWindow::none) &&
                          wanted.chunks == wire::StageChunks::usual;
  if (goes_by_gpu(*send) && is_setback) gpu_.made()->note_way(peer, send->gpu->buffer, passage->number != 0);
  Stream& out = out_[{&peer, passage->number}];
  out.number = passage->number;
  out.memory = passage->memory;
  out.messages.push_back({.request = wanted.sender,
                          .receiver = wanted.receiver,
                          .bytes = wanted.bytes,
                          .near = side_of(*send, device),
                          .to_gpu = wanted.by_processor == 0,
                          .finely = wanted.chunks == wire::StageChunks::small});
  send->transfer = Request::Transfer::staged;
  ++under_way_;
  // A short one waits for `poll`: more may have come with it.
  if (!is_short(out, out.messages.back())) go_on([&] { return fill(peer, out); });
}

// --- the sender's side

unsigned Staging::fill(Peer& peer, Stream& out) {
  unsigned happened = settle_filled(peer, out);
  while (out.begun < out.messages.size()) {
    const Together together = fill_together(peer, out);
    if (together == Together::held || out.begun == out.messages.size()) return happened;
    if (together == Together::started) {
      ++happened;
      continue;
    }
    Message& message = out.messages[out.begun];
    Request& send = *completion_.find(message.request);
    if (!message.is_told && !announce(peer, out, message, send, out.begun)) return happened;
    const std::size_t before = out.begun;
    const unsigned started = fill_chunks(peer, out, message, send);
    happened += started;
    if (out.number != 0 && started != 0) {
      // A chunk at a time: the receiver is to hear of the first before the others are started.
      happened += settle_filled(peer, out);
      continue;
    }
    if (out.begun == before) return happened;
  }
  return happened;
}

/// Whether a message may go together with others: a GPU copies it at this side, and it is short.
bool Staging::is_short(const Stream& stream, const Message& message) const {
  const bool by_gpu = stream.number != 0 || goes_by_gpu(*completion_.find(message.request));
  return by_gpu && message.bytes <= (stream.number != 0 ? longest_in_window : GpuCopies::longest_by_kernel);
}

Staging::Together Staging::gather(Stream& stream, Direction direction,
                                  const std::function<bool(std::size_t, Message&)>& is_ready) {
  const std::size_t waiting = stream.messages.size() - stream.begun;
  Message& first = stream.messages[stream.begun];
  if (first.begun != 0 || !is_short(stream, first)) return Together::none;
  const cuda::Device device = first.near.device;
  const std::uint64_t most = stream.number != 0 ? first.window / 2 : most_together_bytes;
  std::array<CopyPiece, GpuCopies::most_together> pieces;
  std::size_t count = 0;
  for (std::uint64_t bytes = 0; count < std::min(waiting, pieces.size()); ++count) {
    if (stream.chunks.size() + count >= most_short) break;
    Message& message = stream.messages[stream.begun + count];
    bytes += message.bytes;
    if (!is_short(stream, message) || message.near.device != device || bytes > most ||
        !gpu_.made()->copies().can_stage_together(message.near) || !is_ready(stream.begun + count, message) ||
        next_chunk(stream, message) < message.bytes)
      break;
    std::byte* const there = message.data + message.position % message.window;
    const bool is_out = direction == Direction::to_host || direction == Direction::to_window;
    pieces[count] = is_out ? CopyPiece{there, message.near.data, message.bytes}
                           : CopyPiece{message.near.data, there, message.bytes};
  }
  // More may come while the engine has enough to do.
  if (count > 0 && count < pieces.size() && gpu_.made()->copies().is_busy(device, direction))
    return Together::held;
  if (count < 2) return Together::none;
  const std::size_t before = stream.chunks.size();
  const auto take_back = [&] { stream.chunks.resize(before); };
  try {
    for (std::size_t i = 0; i < count; ++i) {
      const Message& message = stream.messages[stream.begun + i];
      stream.chunks.push_back({{}, message.position + message.bytes, true});
    }
    auto copy = gpu_.made()->copies().stage_together(device, direction, {pieces.data(), count});
    if (!copy) {
      take_back();
      return Together::none;  // one by one it is told why
    }
    for (std::size_t i = 0; i < count; ++i)
      stream.chunks[before + i].copy = i + 1 < count ? copy->another() : std::move(*copy);
  } catch (...) {
    take_back();
    throw;
  }
  for (std::size_t i = 0; i < count; ++i, ++stream.begun)
    stream.messages[stream.begun].begun = stream.messages[stream.begun].bytes;
  return Together::started;
}

Staging::Together Staging::fill_together(Peer& peer, Stream& out) {
  return gather(
      out, out.number != 0 ? Direction::to_window : Direction::to_host,
      [&](std::size_t index, Message& message) {
        if (!message.is_told && !announce(peer, out, message, *completion_.find(message.request), index))
          return false;
        if (out.number == 0 && out.area.pinned() < out.area.part(out.window).size()) return false;
        const std::uint64_t emptied = out.area.header().emptied.load(std::memory_order_acquire);
        return message.position + message.bytes - emptied <= message.window;
      });
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
bool Staging::announce(Peer& peer, Stream& out, Message& message, const Request& send, std::size_t index) {
  links_.prepare_answer(peer);
  if (!out.area.is_there()) {
    auto area = out.number != 0 ? StagingArea::take_header(links_.region().heap())
                                : StagingArea::take(links_.region().heap());
    if (!area) {
      end_send(peer, out, index, &area.error());
      return false;
    }
    out.area = std::move(*area);
  }
  if (!open(out, message, send)) return false;
  message.window = out.window;
  message.data = out.number != 0 ? out.memory.data() : out.area.data();
  message.position = out.position;
  message.is_told = true;
  out.position = wire::staging_end(message.position, message.bytes);
  const wire::StageStart start{.receiver = message.receiver,
                               .area = out.area.offset(),
                               .position = message.position,
                               .bytes = out.area.bytes(),
                               .window = message.window};
  links_.send_control(peer, wire::CellKind::staged, &start, sizeof start,
                      static_cast<std::int32_t>(out.number));
  return true;
}

/// Makes the window right for a message. What is in the window must have been emptied before it is changed.
bool Staging::open(Stream& out, const Message& message, const Request& send) {
  if (out.number != 0) {
    out.window = static_cast<std::uint32_t>(out.memory.size());
    return true;
  }
  const std::uint32_t most = out.area.largest_window();
  const bool is_long = (message.to_gpu || goes_by_gpu(send)) && message.bytes > short_window;
  std::uint32_t window = is_long ? most : std::min(most, short_window);
  if (is_long && message.finely) window = std::min(most, fine_window);
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

/// The next chunk of a message.
std::uint32_t Staging::next_chunk(const Stream& stream, const Message& message) {
  const std::uint64_t position = message.position + message.begun;
  if (stream.number == 0) return wire::staging_chunk(message.bytes, message.begun, position, message.window);
  const std::uint64_t most = std::max<std::uint64_t>(message.window / 2, wire::least_window);
  const std::uint64_t to_the_end = message.window - position % message.window;
  return static_cast<std::uint32_t>(std::min(
      {std::max(first_in_window, 2 * message.begun), most, message.bytes - message.begun, to_the_end}));
}

unsigned Staging::fill_chunks(Peer& peer, Stream& out, Message& message, Request& send) {
  const bool by_gpu = out.number != 0 || goes_by_gpu(send);
  unsigned happened = 0;
  while (message.begun < message.bytes && out.chunks.size() < most_chunks) {
    const std::uint64_t position = message.position + message.begun;
    const std::uint32_t bytes = next_chunk(out, message);
    const std::uint64_t emptied = out.area.header().emptied.load(std::memory_order_acquire);
    if (position + bytes - emptied > message.window || (!by_gpu && !out.chunks.empty())) return happened;
    std::byte* const to = message.data + position % message.window;
    const std::uint64_t offset = message.begun;
    const bool is_last = offset + bytes == message.bytes;
    if (by_gpu) {
      const Result<> begun = start_chunk(
          out, message, out.number != 0 ? Direction::to_window : Direction::to_host,
          {.to = to, .from = message.near.data + offset, .bytes = bytes}, {{}, position + bytes, is_last});
      ++happened;
      if (!begun) {
        end_send(peer, out, out.begun, &begun.error());
        return happened;
      }
      if (is_last) ++out.begun;
      if (out.number != 0) return happened;  // see `fill`
      continue;
    }
    copy_out(send, offset, {to, bytes}, message.to_gpu);
    message.begun += bytes;
    ++happened;
    publish(peer, out.area.header().filled, position + bytes);
    if (is_last) end_send(peer, out, out.begun, nullptr);
    return happened;  // one at a time, so that the rest of this rank's work goes on
  }
  return happened;
}

void Staging::publish(Peer& peer, std::atomic<std::uint64_t>& counter, std::uint64_t position) {
  counter.store(position, std::memory_order_release);
  links_.notify(peer.id);
}

/// Starts the next chunk of a message. Where it fails, or memory runs out, there is no such chunk.
Result<> Staging::start_chunk(Stream& stream, Message& message, Direction direction, const CopyPiece& piece,
                              Chunk chunk) {
  stream.chunks.push_back(std::move(chunk));  // before the copy is started, which must not be lost
  try {
    auto copy = gpu_.made()->copies().stage(message.near, direction, piece);
    if (copy) {
      stream.chunks.back().copy = std::move(*copy);
      message.begun += piece.bytes;
      return {};
    }
    stream.chunks.pop_back();
    return std::unexpected(std::move(copy).error());
  } catch (...) {
    stream.chunks.pop_back();
    throw;
  }
}

/// A message has left, or cannot because of `why`.
void Staging::end_send(Peer& peer, Stream& out, std::size_t index, const Error* why) {
  if (why && !peer.lost) links_.prepare_answer(peer);
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
  Request& send = *completion_.find(message.request);
  if (why) return fail_send(peer, send, message.receiver, *why);
  peer.traffic.add_sent(out.number != 0 ? Protocol::gpu_bounce : Protocol::gpu_staged, message.bytes);
  completion_.finish(send);
}

void Staging::fail_send(Peer& peer, Request& send, wire::Cookie receiver, const Error& why) {
  const wire::GpuEnd end{.receiver = receiver, .outcome = wire::GpuOutcome::failed, .reserved = 0};
  links_.send_control(peer, wire::CellKind::gpu_end, &end, sizeof end);
  if (!peer.lost) complain(why);  // of that others tell
  send.status.error = static_cast<int>(why.error_class());
  completion_.finish(send);
}

// --- both

unsigned Staging::poll() {
  if (under_way_ == 0) return 0;
  unsigned happened = 0;
  for (auto& [place, out] : out_)
    if (!out.messages.empty()) happened += fill(*place.first, out);
  for (auto& [place, in] : in_)
    if (!in.messages.empty()) happened += empty(*place.first, in);
  return happened;
}

/// Pins what a stream of that window goes through. Without that the driver copies by way of memory of its
/// own.
bool Staging::pin(Stream& stream, const Request& request, std::uint32_t window) {
  const std::span<std::byte> part = stream.area.part(window);
  if (stream.area.pinned() >= part.size()) return true;
  stream.area.unpin();
  auto pinned = gpu_.made()->copies().pin(request.gpu->buffer, part);
  if (!pinned) {
    complain(pinned.error());
    return false;
  }
  stream.area.keep(std::move(*pinned));
  return true;
}

void Staging::complain(const Error& error) noexcept {
  if (!std::exchange(complained_, true) && links_.settings().warn) warn(error.text());
}

}  // namespace isthmus
