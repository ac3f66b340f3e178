#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <new>
#include <span>
#include <utility>

#include "chare/items.hpp"
#include "chare/record.hpp"

namespace isthmus::chare {

using Element = ::isthmus_chare_element;
struct Incoming;

/// Something to do for the scheduler: a record of another process, or an invocation within this one, whose
/// arguments nobody has packed. The arguments lie behind it.
struct Message {
  Message* next = nullptr;
  Element* element = nullptr;  ///< of an invocation within this process; null: to be looked up
  const Item* item = nullptr;
  std::uint64_t collection = 0;
  Index index{};
  std::uint64_t bytes = 0;  ///< of packed arguments
  std::int32_t priority = 0;
  std::uint32_t origin = 0;  ///< the process that it comes from
  std::size_t capacity = 0;  ///< of a large one: bytes behind it
  std::uint32_t list = 0;    ///< of `MessagePool`
  std::uint32_t skip = 0;    ///< bytes in front of the arguments
  RecordKind kind = RecordKind::invoke;
  bool packed = true;
  bool kept = false;             ///< by the program, whose memory it is
  Incoming* incoming = nullptr;  ///< data that it waits for, or has waited for

  [[nodiscard]] std::byte* data() noexcept { return reinterpret_cast<std::byte*>(this) + offset + skip; }
  static Message* of(void* data) noexcept {
    return reinterpret_cast<Message*>(static_cast<std::byte*>(data) - offset);
  }
  [[nodiscard]] std::span<const std::byte> payload() noexcept { return {data(), bytes}; }
  static const std::size_t offset;
};
inline constexpr std::size_t Message::offset = (sizeof(Message) + 15) / 16 * 16;

/// Memory for messages. Short ones come from lists by size and go back there: 10^6 invocations need malloc as
/// often as the most that there were at a time. Some long ones are kept too: with new memory for each message
/// of 1 MiB, and its page faults, one took 8 times as long as MPI's own (2.9 ms and 0.35, on two busy cores).
class MessagePool {
 public:
  static constexpr std::uint32_t none = ~0U;  ///< `list` of those that are too large for one

  MessagePool() = default;
  MessagePool(const MessagePool&) = delete;
  MessagePool& operator=(const MessagePool&) = delete;
  ~MessagePool() {
    for (Message* list : free_)
      while (list) {
        Message* const next = list->next;
        std::free(list);
        list = next;
      }
    for (const Large& each : large_)
      std::free(each.message);
  }

  /// Throws `std::bad_alloc`.
  [[nodiscard]] Message* take(std::size_t bytes) {
    const std::size_t units = (bytes + unit - 1) / unit;
    if (units >= free_.size()) return take_large(bytes);
    if (Message* const message = free_[units]) {
      free_[units] = message->next;
      return new (message) Message{.list = static_cast<std::uint32_t>(units)};
    }
    return make(units * unit, static_cast<std::uint32_t>(units));
  }
  void give_back(Message* message) noexcept {
    if (message->list == none) return give_back_large(message);
    message->next = free_[message->list];
    free_[message->list] = message;
  }

 private:
  static constexpr std::size_t unit = 32;
  static constexpr std::size_t largest_kept = std::size_t{16} << 20;

  struct Large {
    Message* message = nullptr;
    std::size_t capacity = 0;
  };

  static Message* make(std::size_t bytes, std::uint32_t list) {
    void* const memory = std::malloc(Message::offset + bytes);
    if (!memory) throw std::bad_alloc();
    return new (memory) Message{.list = list};
  }
  Message* take_large(std::size_t bytes) {
    for (Large& each : large_)
      if (each.capacity >= bytes && each.capacity / 2 <= bytes) {
        const Large found = std::exchange(each, Large{});
        return new (found.message) Message{.capacity = found.capacity, .list = none};
      }
    Message* const message = make(bytes, none);
    message->capacity = bytes;
    return message;
  }
  void give_back_large(Message* message) noexcept {
    if (message->capacity > largest_kept) return std::free(message);
    // The oldest makes room.
    Large& place = large_[next_large_++ % large_.size()];
    std::free(std::exchange(place, Large{message, message->capacity}).message);
  }

  std::array<Message*, 33> free_{};  ///< by units behind the message
  std::array<Large, 4> large_{};
  std::size_t next_large_ = 0;
};

/// What waits to be done in this process: by priority, and in the order of coming among equals.
class MessageQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return !usual_.first && others_.empty(); }
  void push(Message* message) {
    if (message->priority == 0) [[likely]]
      usual_.push(message);
    else
      others_[message->priority].push(message);
  }
  /// Null if there is none.
  Message* pop() noexcept {
    if (others_.empty()) [[likely]]
      return usual_.pop();
    const auto first = others_.begin();
    if (first->first > 0 && usual_.first) return usual_.pop();
    Message* const message = first->second.pop();
    if (!first->second.first) others_.erase(first);
    return message;
  }

 private:
  struct List {
    Message* first = nullptr;
    Message* last = nullptr;
    void push(Message* message) noexcept {
      message->next = nullptr;
      (first ? last->next : first) = message;
      last = message;
    }
    Message* pop() noexcept {
      Message* const message = first;
      if (message) first = message->next;
      return message;
    }
  };
  List usual_;
  std::map<std::int32_t, List> others_;
};

}  // namespace isthmus::chare
