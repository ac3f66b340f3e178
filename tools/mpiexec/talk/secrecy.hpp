#pragma once

#include <sodium.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wire/region.hpp"

/// What keeps a connection between the head of a job and an agent to the two: libsodium's hash (BLAKE2b) and
/// its encrypted streams (XChaCha20-Poly1305).
namespace isthmus::mpiexec {

/// Who speaks on a connection.
enum class Side : std::uint8_t { head, agent };

inline constexpr std::uint32_t secrecy_version = 1;
using LinkNonce = std::array<std::uint8_t, 32>;

/// An agent's first bytes, in clear: that it has the job's key, and for which of the job's hosts.
struct Opening {
  std::array<char, 8> magic{'i', 's', 't', 'h', 'l', 'n', 'k', '\n'};
  std::uint32_t version = secrecy_version;
  std::uint32_t host = 0;
  LinkNonce nonce{};
  std::array<std::uint8_t, 32> proof{};  ///< hash of the rest under the job's key

  /// With a new nonce.
  static Opening make(const wire::JobKey& key, std::uint32_t host);
  [[nodiscard]] bool is_proved(const wire::JobKey& key) const;
};
static_assert(sizeof(Opening) == 80);

/// The head's answer to a proven opening, in clear.
struct Answer {
  LinkNonce nonce{};
};

/// One connection's two streams, each under a key of its own that is derived from the job's key, the host and
/// both nonces. So what was said on another connection, to another host, by the other side, in another order,
/// or twice cannot be opened here.
class Secrecy {
 public:
  Secrecy(const wire::JobKey& key, Side own, const Opening& opening, const Answer& answer);
  ~Secrecy();
  Secrecy(const Secrecy&) = default;
  Secrecy& operator=(const Secrecy&) = default;

  /// The first bytes of this side's stream, in clear. The other side's have to be heard before anything is
  /// opened.
  static constexpr std::size_t header_bytes = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
  [[nodiscard]] std::string_view header() const {
    return {reinterpret_cast<const char*>(header_.data()), header_.size()};
  }
  void hear_header(std::string_view header);

  /// What sealing adds to a text's length.
  static constexpr std::size_t seal_bytes = crypto_secretstream_xchacha20poly1305_ABYTES;
  std::string seal(std::string_view text);
  /// Nothing if this is not what the other side has sealed next.
  std::optional<std::string> open(std::string_view sealed);

 private:
  using Key = std::array<std::uint8_t, crypto_secretstream_xchacha20poly1305_KEYBYTES>;

  Key other_key_{};
  std::array<std::uint8_t, header_bytes> header_{};
  crypto_secretstream_xchacha20poly1305_state own_{}, other_{};
};

}  // namespace isthmus::mpiexec
