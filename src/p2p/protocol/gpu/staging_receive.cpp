// The receiver's side of messages through memory that both reach.
#include <algorithm>
#include <memory>
#include <utility>

#include "p2p/active/completion.hpp"
#include "p2p/active/cpu_destination.hpp"
#include "p2p/link/links.hpp"
#include "p2p/protocol/gpu/access.hpp"
#include "p2p/protocol/gpu/staging.hpp"

namespace isthmus {

using Direction = GpuCopies::Direction;

/// False: there is no memory for that, and the receive has failed.
bool Staging::copy_in(Request& receive, std::uint64_t offset, std::span<const std::byte> from) {
  const Payload* const payload = cpu_destination_of(receive);
  if (!payload) return false;
  if (payload->type) {
    if (offset == 0) receive.cursor.emplace(*payload->type, payload->data, payload->count);
    receive.cursor->unpack(from);
  } else {
    copy_by_processors(payload->data + offset, from.data(), from.size());
  }
  return true;
}

void Staging::begin(Peer& peer, std::uint32_t number, const wire::StageStart& start) {
  Request* receive = completion_.find(start.receiver);
  if (!receive || receive->kind != Request::Kind::receive || receive->peer != &peer || receive->complete ||
      receive->transfer != Request::Transfer::staged)
    return links_.malformed(peer, "chunks that no receive waits for");
  std::shared_ptr<const Mapping> mapping;
  const cuda::Device device = wanted_for(*receive);
  if (number != 0) {
    if (device != cuda::no_device) mapping = gpu_.made()->windows().opened(peer, number, device);
    if (!mapping || start.window > mapping->bytes())
      return links_.malformed(peer, "chunks through a window that is not open");
  }
  // In whatever stream: it is to end once.
  const bool is_known = std::ranges::any_of(in_, [&start](const auto& each) {
    const auto is_it = [&start](const Message& message) { return message.request == start.receiver; };
    return std::ranges::any_of(each.second.messages, is_it);
  });
  if (is_known) return links_.malformed(peer, "chunks of a message that has begun");
  Stream& in = in_[{&peer, number}];
  in.number = number;
  if (!in.area.is_there() || in.area.offset() != start.area || in.area.bytes() != start.bytes) {
    auto area = number != 0 ? StagingArea::header_at(links_.region().heap(), start.area, start.bytes)
                            : StagingArea::at(links_.region().heap(), start.area, start.bytes);
    if (!area || !in.messages.empty()) return links_.malformed(peer, "chunks outside of the shared memory");
    in.area = std::move(*area);
  }
  if (start.window < wire::least_window || (!mapping && start.window > in.area.largest_window()))
    return links_.malformed(peer, "chunks outside of their memory");
  // Copies through pinned memory must be over before more of it is pinned; an honest sender has seen to it.
  if (!mapping && goes_by_gpu(*receive) && in.chunks.empty()) pin(in, *receive, start.window);
  std::byte* const data = mapping ? mapping->base() : in.area.data();
  in.messages.push_back({.request = start.receiver,
                         .bytes = receive->limit,
                         .position = start.position,
                         .window = start.window,
                         .data = data,
                         .mapping = std::move(mapping),
                         .near = side_of(*receive, device)});
  wanted_.erase(start.receiver);
  ++under_way_;
  go_on([&] { return empty(peer, in); });
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
    const Together together = empty_together(in);
    if (together == Together::held || in.begun == in.messages.size()) return happened;
    if (together == Together::started) {
      ++happened;
      continue;
    }
    const std::size_t before = in.begun;
    const std::size_t messages = in.messages.size();
    happened += empty_chunks(peer, in, message, *completion_.find(message.request));
    if (in.begun == before && in.messages.size() == messages) return happened;
  }
  return happened;
}

Staging::Together Staging::empty_together(Stream& in) {
  const std::uint64_t filled = in.area.header().filled.load(std::memory_order_acquire);
  return gather(in, in.number != 0 ? Direction::from_window : Direction::from_host,
                [&](std::size_t, const Message& message) {
                  const std::uint64_t end = message.position + message.bytes;
                  return !message.failed && !message.abandoned &&
                         static_cast<std::int64_t>(filled - end) >= 0;
                });
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
  const bool by_gpu = (in.number != 0 || goes_by_gpu(receive)) && !message.failed;
  unsigned happened = 0;
  while (message.begun < message.bytes && in.chunks.size() < most_chunks) {
    const std::uint64_t position = message.position + message.begun;
    const std::uint32_t bytes = next_chunk(in, message);
    const std::uint64_t filled = in.area.header().filled.load(std::memory_order_acquire);
    const bool has_come = static_cast<std::int64_t>(filled - (position + bytes)) >= 0;
    if (!has_come || (!by_gpu && !in.chunks.empty())) return happened;
    const std::byte* const from = message.data + position % message.window;
    const std::uint64_t offset = message.begun;
    const bool is_last = offset + bytes == message.bytes;
    if (by_gpu) {
      const Result<> begun = start_chunk(
          in, message, in.number != 0 ? Direction::from_window : Direction::from_host,
          {.to = message.near.data + offset, .from = from, .bytes = bytes}, {{}, position + bytes, is_last});
      ++happened;
      if (begun) {
        if (is_last) ++in.begun;
        continue;
      }
      complain(begun.error());
      message.failed = true;
      return happened;
    }
    if (!message.failed && !copy_in(receive, offset, {from, bytes})) message.failed = true;
    message.begun += bytes;
    ++happened;
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
  Request& receive = *completion_.find(message.request);
  const bool is_lost = message.failed || message.abandoned;
  if (gpu_.made() && is_lost) gpu_.made()->lives().given_up(receive.gpu_mark);
  if (gpu_.made() && !is_lost) gpu_.made()->lives().ended(receive.gpu_mark, message.bytes);
  if (receive.gpu && (goes_by_gpu(receive) || is_lost)) receive.gpu->landed = true;
  if (is_lost) {
    receive.status.bytes = 0;
    const bool has_no_memory = receive.status.error == static_cast<int>(ErrorClass::no_mem);
    if (peer.lost || !has_no_memory)
      receive.status.error = static_cast<int>(peer.lost ? ErrorClass::proc_aborted : ErrorClass::other);
  } else {
    count_received(peer, receive, in.number != 0 ? Protocol::gpu_bounce : Protocol::gpu_staged,
                   message.bytes);
  }
  completion_.finish(receive);
}

void Staging::abandon(Peer& peer, Request& receive) {
  wanted_.erase(receive.cookie());
  for (auto& [place, in] : in_) {
    if (place.first != &peer) continue;
    for (Message& message : in.messages) {
      if (message.request != receive.cookie()) continue;
      message.abandoned = true;
      go_on([&] { return empty(peer, in); });
      return;
    }
  }
  if (gpu_.made()) gpu_.made()->lives().given_up(receive.gpu_mark);
  if (receive.gpu) receive.gpu->landed = true;
  receive.status.bytes = 0;
  receive.status.error = static_cast<int>(ErrorClass::other);
  completion_.finish(receive);
}

void Staging::lost(Peer& peer) {
  const Error gone(ErrorClass::proc_aborted);  // a sentence would need memory
  // Copies of this process's GPU are over in a moment; until then they write where messages are to go.
  for (auto& [place, out] : out_) {
    if (place.first != &peer) continue;
    out.chunks.clear();
    out.begun = 0;
    while (!out.messages.empty())
      end_send(peer, out, 0, &gone);
  }
  for (auto& [place, in] : in_) {
    if (place.first != &peer) continue;
    for (Message& message : in.messages)
      message.abandoned = true;
    in.chunks.clear();
    while (!in.messages.empty())
      end_receive(peer, in);
  }
}

}  // namespace isthmus
