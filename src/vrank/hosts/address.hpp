#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "wire/region.hpp"

namespace isthmus::vrank {

/// What must be alike in two processes for a rank of one to go on in the other.
struct Likeness {
  std::uint64_t program = 0;    ///< its bytes
  std::uint64_t libraries = 0;  ///< which, where, and what they have made before there were ranks
  std::uint64_t processor = 0;  ///< what instructions it has
  std::uint64_t region = 0;     ///< how it is laid out
  friend bool operator==(const Likeness&, const Likeness&) = default;
};
/// What differs, as a part of a sentence.
[[nodiscard]] std::string difference(const Likeness& one, const Likeness& other);

/// Where a process is to be found, and what it is like.
struct ProcessAddress {
  using Ip = std::array<std::uint8_t, 16>;  ///< of IPv4 as IPv6 has it (::ffff:a.b.c.d)

  wire::JobKey key{};  ///< who calls has to know it
  std::uint16_t port = 0;
  std::vector<Ip> ips;  ///< in the order in which they are tried
  Likeness likeness;

  [[nodiscard]] std::string pack() const;
  /// Nothing for what is none.
  static std::optional<ProcessAddress> unpack(std::string_view text);
};

/// A socket that listens at all addresses of this host; the address has port and addresses then.
Result<UniqueFd> listen_at(ProcessAddress& address);
[[nodiscard]] bool is_v4(const ProcessAddress::Ip& ip) noexcept;

}  // namespace isthmus::vrank
