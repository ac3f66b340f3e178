#pragma once

#include <cstdint>

#include "p2p/active/batch_reports.hpp"
#include "p2p/active/cell_handlers.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/link/links.hpp"
#include "p2p/link/peer_access.hpp"
#include "p2p/message/queue.hpp"
#include "p2p/message/request.hpp"
#include "p2p/progress/poll_list.hpp"
#include "p2p/protocol/cpu/shares.hpp"
#include "route/live_plans.hpp"
#include "wire/ring.hpp"

namespace isthmus {

/// Messages that both sides copy, each with a processor of its own: the receiver reads chunks from the start,
/// the sender writes chunks from the end, and a `wire::Share` says which are taken. Guarded by the engine's
/// lock.
class SplitCopies final : public Polled {
 public:
  /// What it is made of besides.
  struct Surroundings {
    Links& links;
    Completion& completion;
    PeerAccess& access;
    PollList& polled;
    LivePlans& plans;
    BatchReports& reports;
  };
  SplitCopies(const Surroundings& around, CellHandlers& handlers)
      : links_(around.links),
        completion_(around.completion),
        access_(around.access),
        polled_(around.polled),
        plans_(around.plans),
        reports_(around.reports),
        shares_(around.links.region().heap()) {
    around.links.probes().add(probe);
    handlers.add<&SplitCopies::asked_to_join>(wire::CellKind::split_start, *this);
  }

  static const Probe probe;
  /// Whether both sides may copy a matched message, where that holds for their pair.
  [[nodiscard]] static bool suits(const Peer& peer, const Request& receive,
                                  const wire::SendOffer& offer) noexcept {
    // A sender that has no part in it could not end its send when that is cancelled (`Engine::cancel`).
    return offer.address != 0 && peer.pull && peer.push && offer.reads_only == 0 && !receive.payload.type &&
           receive.memory != MemoryKind::managed;
  }
  /// Brings what `sender` has at `address`, without gaps, to the matched `receive`. False, with nothing done,
  /// where the region has no room for another such copy. Nothing waits for room: a sender that has cancelled
  /// its send hears at once what is left for it to copy (`Engine::cancel`).
  [[nodiscard]] bool try_start(Peer& peer, Request& receive, wire::Cookie sender, std::uint64_t address);
  unsigned poll() override;
  /// Whether none is under way.
  [[nodiscard]] bool empty() const noexcept { return under_way_.empty(); }
  /// This rank goes to another region; none is under way.
  void leave() noexcept { shares_.leave(); }
  /// Lets go of the requests of a peer that is no more.
  void forget(const Peer& peer) noexcept;

 private:
  using Requests = Queue<Request, &Request::queued>;

  void asked_to_join(const ArrivedCell& cell);
  bool copy_chunk(Request& request);
  bool copy_any_chunk();
  bool finish_if_done(Peer& peer, Request& request);

  Links& links_;
  Completion& completion_;
  PeerAccess& access_;
  PollList& polled_;
  LivePlans& plans_;
  BatchReports& reports_;
  Shares shares_;       ///< of what this rank receives
  Requests under_way_;  ///< oldest first
};

}  // namespace isthmus
