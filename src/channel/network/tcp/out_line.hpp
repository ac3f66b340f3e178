#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "channel/network/port.hpp"
#include "channel/network/tcp/frame.hpp"

namespace isthmus::network {

/// What goes to one peer, in order, as far as its socket takes it.
class OutLine {
 public:
  /// A frame with its header, and `bytes` behind it that stay where they are until it has left.
  struct Item {
    FrameBytes front;
    std::size_t front_bytes = 0;
    std::span<const std::byte> bytes;
    std::optional<Token> token;  ///< who is to hear that it has left; nobody
  };
  static Item item(const Frame& frame, std::span<const std::byte> header, std::span<const std::byte> bytes,
                   std::optional<Token> token) noexcept;

  int socket = -1;

  [[nodiscard]] bool empty() const noexcept { return items_.empty(); }
  void add(const Item& item) { items_.push_back(item); }
  /// Writes on; the errno of a socket that is of no use any more, 0 for none. Tokens of what has left are
  /// handed to `has_left`.
  template <class HasLeft>
  int push(HasLeft has_left) {
    while (!items_.empty()) {
      const int error = write_front();
      if (error == would_block) return 0;
      if (error != 0) return error;
      if (written_ < size_of(items_.front())) return 0;
      const std::optional<Token> token = items_.front().token;
      items_.pop_front();
      written_ = 0;
      if (token) has_left(*token);
    }
    return 0;
  }
  /// Forgets all; the tokens go to `forgotten`.
  template <class Forgotten>
  void clear(Forgotten forgotten) {
    written_ = 0;
    while (!items_.empty()) {
      const std::optional<Token> token = items_.front().token;
      items_.pop_front();
      if (token) forgotten(*token);
    }
  }

 private:
  static constexpr int would_block = -1;

  [[nodiscard]] static std::size_t size_of(const Item& item) noexcept {
    return item.front_bytes + item.bytes.size();
  }
  int write_front() noexcept;

  std::deque<Item> items_;
  std::size_t written_ = 0;  ///< of the first
};

}  // namespace isthmus::network
