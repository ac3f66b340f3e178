#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

namespace isthmus::tool {

/// Two ranks that talk over the network.
struct NetworkPair {
  std::vector<std::string> launch;  ///< options of mpiexec, with the hosts
  std::string description;          ///< "between a and b: tcp on eth0"
  std::uint64_t eager_limit = 0;    ///< the channel's own, in bytes
  bool within_one_machine = false;
};

/// Starts two ranks on the two `hosts` ("a,b", by `launcher`, empty for ssh), or where there are none as two
/// hosts that both are this machine, and asks them which way their messages took. Errors are sentences.
std::expected<NetworkPair, std::string> find_network_pair(const std::string& hosts,
                                                          const std::string& launcher);

}  // namespace isthmus::tool
