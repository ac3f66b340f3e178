#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "p2p/active/cell_handlers.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/active/unexpected.hpp"
#include "p2p/link/links.hpp"
#include "p2p/message/gpu_part.hpp"
#include "p2p/message/matcher.hpp"
#include "p2p/progress/poll_list.hpp"
#include "p2p/protocol/gpu/access.hpp"
#include "p2p/protocol/gpu/staging.hpp"
#include "wire/gpu.hpp"
#include "wire/ring.hpp"

namespace isthmus {

/// What peers of this host say of messages in GPU memory, as any process may hear it: one that does not use
/// CUDA gets them through memory of the host. Guarded by the engine's lock.
class GpuOffers final : public OfferFetcher {
 public:
  GpuOffers(Links& links, Completion& completion, Matcher& matcher, UnexpectedMessages& unexpected,
            GpuAccess& gpu, PollList& polled, CellHandlers& handlers);
  GpuOffers(const GpuOffers&) = delete;
  GpuOffers& operator=(const GpuOffers&) = delete;

  /// Of what a peer has in managed memory: chunk by chunk through memory that both share.
  static const Probe probe_of_managed;
  /// Begins to bring an offer to the `receive` that it matches. `Links::prepare_answer` has been called: then
  /// the receive goes on or ends, whatever memory there is.
  void begin(Peer& peer, Request& receive, int source, int tag, const wire::GpuOffer& offer,
             const GpuSource& from);
  /// What follows when the receive has been assigned, as `begin`.
  void fetch(Peer& peer, Request& receive, const wire::GpuOffer& offer, const GpuSource& from) override;
  /// A message in the sender's host memory, for a receive in GPU memory; false if it comes as any other.
  bool begin_to_gpu(Peer& peer, Request& receive, const wire::SendOffer& offer);
  /// A message in the sender's managed memory, which its processors copy; without memory the receive ends.
  void stage_managed(Peer& peer, Request& receive, wire::Cookie sender);

  void lost(Peer& peer) {
    if (staging_) staging_->lost(peer);
    if (gpu_.made()) gpu_.made()->lost(peer);
  }
  void close() noexcept { staging_.reset(); }

 private:
  void offered(const ArrivedCell& cell);
  void asked_to_push(const ArrivedCell& cell);
  void ended(const ArrivedCell& cell);
  void freed(const ArrivedCell& cell);
  void asked_to_stage(const ArrivedCell& cell);
  void staged(const ArrivedCell& cell);
  void asked_to_loop(const ArrivedCell& cell);
  void has_window(const ArrivedCell& cell);
  Staging& staging();
  GpuMessages* used_gpu(Peer& peer);
  void try_fetch(Peer& peer, Request& receive, const wire::GpuOffer& offer, const GpuSource& from);
  /// Goes on with a receive of which the sender's GPU has not copied.
  void fetch_without_push(Peer& peer, Request& receive, wire::GpuOutcome why);
  /// Says once for each peer what it has not been able to do.
  void warn_of(Peer& peer, const char* what) const noexcept;
  /// Has `Staging` bring it in the way that is left. `lacks_memory`: as in `Staging::Wanted`.
  void stage(Peer& peer, Request& receive, wire::Cookie sender, const StagedWay& left, bool lacks_memory);

  Links& links_;
  Completion& completion_;
  Matcher& matcher_;
  UnexpectedMessages& unexpected_;
  GpuAccess& gpu_;
  PollList& polled_;
  std::unique_ptr<Staging> staging_;  ///< null until a message goes that way
};

}  // namespace isthmus
