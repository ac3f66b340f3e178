#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/active/unexpected.hpp"
#include "p2p/link/links.hpp"
#include "p2p/link/loss_watch.hpp"
#include "p2p/link/peer_memory.hpp"
#include "p2p/message/matcher.hpp"
#include "p2p/progress/poll_list.hpp"
#include "p2p/protocol/cpu/split_copy.hpp"
#include "p2p/protocol/gpu/offers.hpp"
#include "p2p/protocol/network/peers.hpp"
#include "route/live_plans.hpp"

namespace isthmus {

/// Who has to say something where a process is lost.
class LossListener {
 public:
  virtual void lost(PeerId id) noexcept = 0;
  /// Says what it has to say; called again after it has thrown, which is for want of memory.
  virtual void settle() = 0;

 protected:
  ~LossListener() = default;
};

/// What happens when a process of the job is no more, or a communicator breaks: what needs it ends.
/// Everything that waits, messages and collectives alike, waits for a request or for `Engine::wait_for`; so
/// this is where it learns of it. Guarded by the engine's lock.
class Losses final : public LossWatch::Listener, private Polled {
 public:
  /// Whose rings are read.
  class Rings {
   public:
    /// Takes all that a peer of this host has left. False where there is no memory for some of it.
    virtual bool read_rest(Peer& peer) = 0;
    /// Nothing is read of it any more.
    virtual void close(Peer& peer) noexcept = 0;

   protected:
    ~Rings() = default;
  };
  /// What they are made of besides.
  struct Surroundings {
    Links& links;
    LossWatch& watch;
    Completion& completion;
    Matcher& matcher;
    UnexpectedMessages& unexpected;
    PeerMemories& memories;
    SplitCopies& splits;
    GpuOffers& gpu_offers;
    LivePlans& plans;
    PollList& polled;
    Rings& rings;
  };
  explicit Losses(const Surroundings& around) : around_(around) { lost_.reserve(around.links.size()); }
  Losses(const Losses&) = delete;
  Losses& operator=(const Losses&) = delete;
  ~Losses() override = default;

  /// Without it there is no network.
  void set_network(NetworkPeers* network) noexcept { network_ = network; }
  void set_listener(LossListener* listener) noexcept { listener_ = listener; }

  /// Those that have been lost, in the order in which this process has found out. A loss is final.
  [[nodiscard]] const std::vector<PeerId>& lost() const noexcept { return lost_; }
  /// What needs the process `id` ends in `ErrorClass::proc_aborted`, now and from now on. `warns`: says
  /// `why`. Needs no memory: what others have to be told, they are told when there is. Only where a process
  /// of this region has left messages that there is no memory for, nothing happens: the next look finds it
  /// again.
  void lose(PeerId id, const std::string& why, bool warns) override;
  /// Lets a context that has been opened since know of the losses before.
  void recall(MatchContext& context);
  /// What a loss leaves to do is tried now, and with each look for progress until there is memory for it.
  void settle() noexcept;
  /// Ends all that is under way in the matching spaces `id` and `id + 1` here. The other processes that have
  /// to hear of it; none where the spaces are not open.
  std::span<const PeerId> break_off(ContextId id, ErrorClass why);

 private:
  unsigned poll() override;
  void end_messages(Peer& peer);
  void lose(MatchContext& context, PeerId id);
  /// What is under way in `context` with tags below `tags` ends: its members work on nothing together any
  /// more.
  void break_off(MatchContext& context, int tags, ErrorClass why);

  Surroundings around_;
  NetworkPeers* network_ = nullptr;
  LossListener* listener_ = nullptr;
  std::vector<PeerId> lost_;
};

}  // namespace isthmus
