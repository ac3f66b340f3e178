#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/ring.hpp"

/// What travels over a network in front of a message.
namespace isthmus::wire {

enum class NetworkKind : std::uint8_t {
  message = 1,      ///< an envelope, with its bytes or with the offer of them
  acknowledge = 2,  ///< a synchronous message has been matched: `sender`
  chunked = 3,      ///< an envelope, whose bytes follow in chunks: `sender` names them
  chunk = 4,        ///< the offer of the next chunk of the message of `sender`
  cut = 5,          ///< the receiver of the offered message of `sender` wants it in chunks, too
  loop = 6,         ///< the offer of bytes whose envelope went through shared memory: `sender` is the receive
  cancel = 7,       ///< whether the message of `sender` has been matched; the receiver is to forget it if not
  cancelled = 8,    ///< the answer: `bytes` is 1 where it has been forgotten, else 0
  leaving = 9,      ///< all has been said: the process may end now, or begin again by another message
  seen_off = 10,    ///< the answer: all of it has come
};

/// The envelope (MPI 5.0, section 3.2.3) between hosts.
struct NetworkHeader {
  std::uint64_t context;
  std::int32_t source;
  std::int32_t tag;
  std::uint64_t bytes;  ///< of the message
  Cookie
      sender;  ///< the send it is about: with `CellFlag::synchronous`, of an offer, and where `kind` says so
  NetworkKind kind;
  CellFlag flag;
  std::uint16_t reserved16;
  std::uint32_t reserved32;
};
static_assert(sizeof(NetworkHeader) == 40);

/// A header out of what a peer sent; nothing where it cannot be one.
[[nodiscard]] std::optional<NetworkHeader> read_network_header(std::span<const std::byte> bytes) noexcept;

}  // namespace isthmus::wire
