#pragma once

#include <cstdint>

#include "p2p/active/batch_reports.hpp"
#include "p2p/active/cell_handlers.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/active/unexpected.hpp"
#include "p2p/link/links.hpp"
#include "p2p/link/peer_access.hpp"
#include "p2p/link/peer_memory.hpp"
#include "p2p/message/matcher.hpp"
#include "p2p/protocol/cpu/fragment_stream.hpp"
#include "p2p/protocol/cpu/split_copy.hpp"
#include "p2p/protocol/gpu/offers.hpp"
#include "route/live_plans.hpp"
#include "wire/ring.hpp"

namespace isthmus {

/// Messages too long to travel with their envelope: the receiver, who alone knows both memories, decides how
/// the bytes go. Guarded by the engine's lock.
class Rendezvous {
 public:
  /// What it is made of besides.
  struct Surroundings {
    Links& links;
    Completion& completion;
    Matcher& matcher;
    UnexpectedMessages& unexpected;
    PeerMemories& memories;
    PeerAccess& access;
    SplitCopies& splits;
    FragmentStreams& streams;
    GpuOffers& gpu_offers;
    LivePlans& plans;
    BatchReports& reports;
  };
  Rendezvous(const Surroundings& around, CellHandlers& handlers) : around_(around) {
    handlers.add<&Rendezvous::offered>(wire::CellKind::ready_to_send, *this);
    handlers.add<&Rendezvous::ended>(wire::CellKind::share_done, *this);
    handlers.add<&Rendezvous::ended>(wire::CellKind::acknowledge, *this);
  }
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Writes the offer of a send; false, with nothing done, if the ring has no room.
  bool try_offer(Peer& peer, Request& send, const Target& target);
  /// Begins to bring what a peer offers to the `receive` that it matches.
  /// `mark`: of its cell.
  void start(Peer& peer, Request& receive, int source, int tag, const wire::SendOffer& offer,
             std::uint16_t mark);

 private:
  void offered(const ArrivedCell& cell);
  void ended(const ArrivedCell& cell);
  /// What a plan that measures itself makes of the protocol that its pair's plan has for a matched receive.
  Protocol measured(Protocol planned, const Peer& peer, Request& receive,
                    const wire::SendOffer& offer) noexcept;
  /// Brings a matched receive in that way; false, with nothing done, where it cannot come so.
  bool try_start(Protocol way, Peer& peer, Request& receive, const wire::SendOffer& offer);
  static bool read_all(PeerMemory& memory, Peer& peer, Request& receive, const wire::SendOffer& offer);
  /// Nothing is left to do for the sender.
  void tell_done(Peer& peer, wire::Cookie sender) {
    around_.links.send_control(peer, wire::CellKind::share_done, &sender, sizeof sender);
  }

  Surroundings around_;
};

}  // namespace isthmus
