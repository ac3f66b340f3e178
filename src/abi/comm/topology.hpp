#pragma once

#include <vector>

#include "comm/topology.hpp"

namespace isthmus::abi {

/// The topology of `comm` if it is of kind `T` (`Grid`, `Graph`, `DistributedGraph`); `ErrorClass::topology`
/// otherwise.
template <class T>
Result<const T*> find_topology(const Communicator& comm) {
  const Topology* topology = topology_of(comm);
  if (topology == nullptr) return fail(ErrorClass::topology, "comm has no topology");
  const T* found = std::get_if<T>(topology);
  if (found == nullptr) return fail(ErrorClass::topology, "comm has a topology of another kind");
  return found;
}

/// The group of the first `count` processes of `comm`.
inline Ref<Group> first_members(const Communicator& comm, int count) {
  const auto members = comm.group()->members().first(static_cast<std::size_t>(count));
  return make_ref<Group>(std::vector<PeerId>(members.begin(), members.end()), comm.group()->session_buffer());
}

}  // namespace isthmus::abi
