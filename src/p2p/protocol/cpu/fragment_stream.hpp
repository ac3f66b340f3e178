#pragma once

#include <cstdint>

#include "p2p/active/batch_reports.hpp"
#include "p2p/active/cell_handlers.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/link/links.hpp"
#include "p2p/message/request.hpp"
#include "route/live_plans.hpp"
#include "wire/ring.hpp"

namespace isthmus {

/// Messages in fragments through the byte ring, which need no help of the kernel. Guarded by the engine's
/// lock.
class FragmentStreams {
 public:
  FragmentStreams(Links& links, Completion& completion, LivePlans& plans, BatchReports& reports,
                  CellHandlers& handlers)
      : links_(links), completion_(completion), plans_(plans), reports_(reports) {
    links.probes().add(probe);
    handlers.add<&FragmentStreams::asked_for>(wire::CellKind::clear_to_send, *this);
    handlers.add<&FragmentStreams::arrived>(wire::CellKind::fragment, *this);
    handlers.add<&FragmentStreams::arrived>(wire::CellKind::fragment_over, *this);
  }
  FragmentStreams(const FragmentStreams&) = delete;
  FragmentStreams& operator=(const FragmentStreams&) = delete;

  static const Probe probe;
  /// Asks the sender of the matched `receive` for it.
  void start(Peer& peer, Request& receive, wire::Cookie sender);
  /// Writes fragments to a peer while its ring has room; how many.
  unsigned push(Peer& peer);
  /// Completes a send in fragments that its receiver has claimed. What has not left is copied: the receiver
  /// takes it out of the ring when it is in MPI again. Without memory for the copy, the send waits for that.
  void buffer_rest(Request& send) noexcept;

 private:
  void asked_for(const ArrivedCell& cell);
  void arrived(const ArrivedCell& cell);

  Links& links_;
  Completion& completion_;
  LivePlans& plans_;
  BatchReports& reports_;
};

}  // namespace isthmus
