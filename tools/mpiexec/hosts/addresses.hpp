#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace isthmus::mpiexec {

/// Where the head waits for its agents.
struct Listener {
  UniqueFd socket;  ///< non-blocking, on all addresses
  std::uint16_t port;

  /// A sentence on failure.
  static std::expected<Listener, std::string> open();
};

/// Addresses of this host by which another may reach it, the likeliest first: the one from which packets to
/// `host` would leave, then those of all interfaces that are up.
std::vector<std::string> addresses_towards(const std::string& host);

/// Connects to the first of `addresses` that answers within a few seconds; a sentence if none does.
std::expected<UniqueFd, std::string> connect_to_any(const std::vector<std::string>& addresses,
                                                    std::uint16_t port);

}  // namespace isthmus::mpiexec
