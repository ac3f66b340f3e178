#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "channel/network/port.hpp"

namespace isthmus::network {

/// What stands before everything that a port sends to another over a line.
struct Frame {
  enum class Kind : std::uint32_t {
    message = 1,  ///< `head` bytes of header, then `bytes` of the message
    offer = 2,    ///< `head` bytes of header: `bytes` are on offer as `id`
    fetch = 3,    ///< the first `bytes` of the peer's offer `id` are wanted
    content = 4,  ///< these, behind it
    decline = 5,  ///< the peer's offer `id` is not wanted
  };
  Kind kind;
  std::uint32_t head;  ///< at most `header_limit`
  std::uint64_t id, bytes;
};
static_assert(sizeof(Frame) == 24);

/// A frame and its header, as they go out together.
using FrameBytes = std::array<std::byte, sizeof(Frame) + header_limit>;

}  // namespace isthmus::network
