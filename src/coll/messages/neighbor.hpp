#pragma once

#include <vector>

#include "coll/call/coll.hpp"
#include "comm/communicator.hpp"

namespace isthmus::coll {

/// The neighbours of a process in its communicator's topology, in the order of the blocks of a neighbourhood
/// collective (MPI 5.0, section 8.6). Of a grid, `null_process` beyond an end.
class Neighborhood final : public CollectiveState {
 public:
  /// Made at the first use, kept with the communicator. `ErrorClass::topology` where it has no topology.
  static Result<const Neighborhood*> of(Communicator& comm);

  [[nodiscard]] const std::vector<int>& sources() const noexcept { return sources_; }
  [[nodiscard]] const std::vector<int>& destinations() const noexcept { return destinations_; }
  /// The destination whose message is the i-th to leave. Messages between two processes arrive in the order
  /// in which they left, and one of a grid that leaves upwards arrives from below: so the two of each
  /// dimension change places.
  [[nodiscard]] int leaving(int i) const noexcept { return is_grid_ ? i ^ 1 : i; }

 private:
  std::vector<int> sources_, destinations_;
  bool is_grid_ = false;
};

}  // namespace isthmus::coll
