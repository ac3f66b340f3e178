#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"

/// What the ports of two processes (`channel/network`) tell each other.
namespace isthmus::wire {

/// What a port says to another. All but messages and offers are in no order with anything.
enum class PortKind : std::uint8_t {
  message,  ///< with its bytes, or offered by the network library
  offer,    ///< of a message to be asked for in pieces: `PieceOffer` follows the header
  want,     ///< asks for a piece: `PieceWant`
  piece,    ///< `PieceHead`, and the bytes behind it
  done,     ///< no more pieces of an offer are wanted: `PieceDone`
};

struct PieceOffer {
  std::uint64_t id;  ///< at the sender, from 1
  std::uint64_t bytes;
};
struct PieceWant {
  std::uint64_t offer;
  std::uint64_t fetch;  ///< at the receiver
  std::uint64_t offset;
  std::uint64_t bytes;
};
struct PieceHead {
  std::uint64_t fetch;
  std::uint64_t offset;
};
struct PieceDone {
  std::uint64_t offer;
};

/// Stands in front of each message's header.
struct PortEnvelope {
  std::uint64_t token;     ///< the addressee's, out of its `PortAddress`: strays of other jobs do not know it
  std::uint64_t sequence;  ///< number of the message among those of this sender to this addressee
  std::uint32_t sender;    ///< rank in the job
  std::uint8_t header_bytes;
  PortKind kind;
  std::uint16_t inlined;  ///< bytes that follow the header: of the message, or what `kind` says
};
static_assert(sizeof(PortEnvelope) == 24);

/// An envelope with what follows it.
struct PortMessage {
  PortEnvelope envelope;
  std::span<const std::byte> header;
  std::span<const std::byte> inlined;
};

/// Reads a `Value` that is all of `bytes`; false if that is of another size.
template <class Value>
[[nodiscard]] bool read_exactly(std::span<const std::byte> bytes, Value& value) noexcept {
  if (bytes.size() != sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  return true;
}

/// Splits what arrived; nothing where the lengths contradict each other. Token, sender and sequence are for
/// the caller to check.
[[nodiscard]] std::optional<PortMessage> read_port_message(std::span<const std::byte> bytes,
                                                           std::size_t header_limit) noexcept;

/// The first and only words on a watch connection (`network::Watch`): from who connects and, in answer, from
/// who accepts. Both prove that they know the accepting process's token, which does not travel here: the
/// addresses of two hosts may be the same, and a stranger's service stand behind one.
struct WatchHello {
  std::uint64_t magic = 0x4853'5457'4854'5349;  ///< "ISTHWTSH"
  std::uint32_t version = 2;
  std::uint32_t sender = 0;  ///< rank in the job
  std::uint64_t nonce = 0;   ///< drawn by who connects
  std::uint64_t proof = 0;

  enum class Way : std::uint8_t { ask, answer };
  /// The proof that belongs to the rest.
  [[nodiscard]] std::uint64_t proof_of(std::uint64_t token, Way way) const noexcept;
  /// Whether this is a hello from somebody who knows `token`.
  [[nodiscard]] bool is_proved(std::uint64_t token, Way way) const noexcept;
};
static_assert(sizeof(WatchHello) == 32);

/// How a port is reached, as it is published.
struct PortAddress {
  std::uint64_t token = 0;
  std::uint16_t watch_port = 0;      ///< TCP port of the watch, in host order; 0 where there is none
  std::vector<std::uint32_t> hosts;  ///< IPv4 addresses of the watch, in network order
  std::vector<std::byte> transport;  ///< the network library's own address

  static constexpr std::size_t hosts_limit = 16;
  static constexpr std::size_t transport_limit = 64U << 10U;

  [[nodiscard]] std::vector<std::byte> write() const;
  /// An error where `bytes` are not what `write` made: cut short, damaged, of another version.
  static Result<PortAddress> read(std::span<const std::byte> bytes);
};

}  // namespace isthmus::wire
