#pragma once

#include "p2p/link/links.hpp"
#include "p2p/link/peer_access.hpp"
#include "p2p/link/peer_memory.hpp"
#include "p2p/protocol/gpu/messages.hpp"
#include "p2p/protocol/network/peers.hpp"
#include "route/call_report.hpp"
#include "route/eager_plans.hpp"
#include "route/live_plans.hpp"

namespace isthmus {

/// What a rank has to tell of its messages, for `isthmus explain`.
struct ExplainParts {
  Links& links;
  PeerAccess& access;
  const PeerMemories& memories;
  const LivePlans& plans;
  const EagerPlans& eager;
  const CallReports& calls;
  const NetworkPeers* network;  ///< null: all ranks share memory
  GpuMessages* gpu;             ///< null: no message was in GPU memory
};

}  // namespace isthmus
