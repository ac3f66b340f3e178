#include "p2p/buffered.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace isthmus {
namespace {

constexpr std::size_t alignment = 64;

constexpr std::size_t align(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

SendBuffer::SendBuffer(Engine& engine, void* memory, std::size_t size)
    : engine_(engine), memory_(static_cast<std::byte*>(memory)), size_(size) {}

SendBuffer::SendBuffer(Engine& engine) : engine_(engine), automatic_(true) {}

SendBuffer::~SendBuffer() {
  flush();
}

Result<> SendBuffer::send(const Target& target, const Payload& payload) {
  reclaim();
  // Before it is sent, so that it is not forgotten for want of memory.
  std::list<Message> entry;
  Message& message = entry.emplace_back();
  message.serial = next_serial_;
  std::byte* copy = nullptr;
  if (automatic_) {
    message.own = std::make_unique_for_overwrite<std::byte[]>(payload.bytes);
    copy = message.own.get();
  } else {
    std::size_t place = find_place(payload.bytes);
    if (place == no_place) {
      engine_.progress();
      reclaim();
      place = find_place(payload.bytes);
    }
    if (place == no_place)
      return fail(ErrorClass::buffer, "no room for a message of " + std::to_string(payload.bytes) +
                                          " bytes in the attached buffer of " + std::to_string(size_) +
                                          " bytes, where " + std::to_string(messages_.size()) +
                                          " messages wait to be sent");
    copy = memory_ + place;
    message.begin = place;
    message.end = place + payload.bytes;
  }
  ISTHMUS_TRY(engine_.pack(payload, copy));
  message.request = engine_.start_send(target, Payload::of(copy, payload.bytes));
  if (!message.request) return {};
  ++next_serial_;
  last_end_ = message.end;
  const auto behind = std::ranges::find_if(
      messages_, [&](const Message& other) { return other.begin >= message.end && !automatic_; });
  messages_.splice(behind, entry);
  return {};
}

std::size_t SendBuffer::find_place(std::size_t bytes) const {
  // Room for the alignment is part of MPI_BSEND_OVERHEAD.
  const std::size_t base = reinterpret_cast<std::uintptr_t>(memory_) % alignment;
  std::size_t first = no_place;
  // True if the gap is behind the message placed last, where the circular model puts the next one.
  const auto is_next = [&](std::size_t gap_begin, std::size_t gap_end) {
    const std::size_t begin = align(base + gap_begin) - base;
    if (begin > gap_end || gap_end - begin < bytes) return false;
    const bool next = gap_begin >= last_end_;
    if (next || first == no_place) first = begin;
    return next;
  };
  std::size_t gap_begin = 0;
  for (const Message& message : messages_) {
    if (is_next(gap_begin, message.begin)) return first;
    gap_begin = message.end;
  }
  is_next(gap_begin, size_);
  return first;
}

void SendBuffer::reclaim() {
  for (auto message = messages_.begin(); message != messages_.end();) {
    if (!message->request->complete) {
      ++message;
      continue;
    }
    engine_.free(message->request);
    message = messages_.erase(message);
  }
  if (messages_.empty()) last_end_ = 0;
}

void SendBuffer::flush() {
  const std::uint64_t now = mark();
  engine_.wait_for([&] { return sent(now); });
}

bool SendBuffer::sent(std::uint64_t mark) {
  reclaim();
  return std::ranges::none_of(messages_, [&](const Message& message) { return message.serial < mark; });
}

}  // namespace isthmus
