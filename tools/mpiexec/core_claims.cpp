#include "core_claims.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace isthmus::mpiexec {
namespace {

/// Empty if somebody else has the name.
UniqueFd claim_core(int core) {
  const std::string name = fmt::format("isthmus/core/{}", core);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);  // after a zero: abstract
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) socket.reset();
  return socket;
}

}  // namespace

std::vector<Core> CoreClaims::claim(const Topology& topology, std::uint32_t ranks, MapBy map) {
  std::vector<Core> cores;
  for (const Core* core : deal_cores(topology, map)) {
    if (cores.size() == ranks) break;
    UniqueFd name = claim_core(core->index);
    if (!name) continue;
    names_.push_back(std::move(name));
    cores.push_back(*core);
  }
  if (cores.size() < ranks) {
    names_.clear();
    cores.clear();
  }
  return cores;
}

}  // namespace isthmus::mpiexec
