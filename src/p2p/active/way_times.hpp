#pragma once

#include <cstdint>

#include "p2p/link/links.hpp"
#include "p2p/message/request.hpp"
#include "route/live_plans.hpp"

namespace isthmus {

/// For how long messages were on their way to this rank, by peer and way, for `isthmus explain`: from the
/// match to the last byte, without the time in which the rank was not in MPI. What came with its envelope is
/// there when it matches, and does not count.
///
/// Each moment counts once, however many messages are under way: for the one that ends next. Guarded by the
/// engine's lock.
class WayTimes {
 public:
  WayTimes(Links& links, LivePlans& clock) noexcept : links_(links), clock_(clock) {}

  /// Once is enough.
  void begins(Request& receive) noexcept;
  /// Nothing happens for a request that has not begun here. One without a way has failed before it had one;
  /// one without a peer comes from this rank.
  void ends(Request& request) noexcept;

 private:
  Links& links_;
  LivePlans& clock_;
  std::uint64_t under_way_ = 0;
  std::uint64_t since_ = 0;  ///< ticks in MPI: when the last one ended, or the first of these began
};

}  // namespace isthmus
