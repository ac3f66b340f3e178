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

/// For each of `hosts`, addresses of this host by which it may reach it, the likeliest first: the one from
/// which packets to it would leave, if its name has been found within a second; then those of all interfaces
/// that are up. Nameservers may take longer than that, and launchers have names of their own.
std::vector<std::vector<std::string>> addresses_towards(const std::vector<std::string>& hosts);

/// Connects to the first of `addresses` that answers within a few seconds; a sentence if none does.
std::expected<UniqueFd, std::string> connect_to_any(const std::vector<std::string>& addresses,
                                                    std::uint16_t port);

}  // namespace isthmus::mpiexec
