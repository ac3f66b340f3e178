#pragma once

#include <cstdint>
#include <vector>

#include "base/unique_fd.hpp"
#include "place/binding.hpp"
#include "place/topology.hpp"

namespace isthmus::mpiexec {

/// The cores that this job keeps to itself among the jobs of this host (more exactly, of this network
/// namespace), so that two jobs at once are not bound to the same ones. A claim is a name in the kernel's
/// table of abstract sockets: it has no file, and goes with mpiexec however that ends.
class CoreClaims {
 public:
  /// Claims one core for each rank, in the order of `map` and past those that other jobs have. Fewer than
  /// `ranks` are none: the result is empty then, and nothing is claimed.
  std::vector<Core> claim(const Topology& topology, std::uint32_t ranks, MapBy map);

 private:
  std::vector<UniqueFd> names_;
};

}  // namespace isthmus::mpiexec
