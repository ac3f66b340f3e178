#include "binding/core_claims.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <utility>

#include "base/system/unix_address.hpp"

namespace isthmus::mpiexec {
namespace {

/// Empty if somebody else has the name.
UniqueFd claim_core(int core) {
  const UnixAddress address = UnixAddress::abstract(fmt::format("isthmus/core/{}", core));
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::bind(socket.get(), address.get(), address.size()) != 0) socket.reset();
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
