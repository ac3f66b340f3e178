#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/attributes.hpp"
#include "base/error.hpp"
#include "base/frame_pool.hpp"
#include "base/ref.hpp"
#include "comm/errhandler.hpp"
#include "comm/group.hpp"
#include "comm/info.hpp"
#include "p2p/buffered.hpp"
#include "p2p/engine.hpp"

namespace isthmus {

class Communicator;

/// Tags in a collective context below this are of what all members do together.
inline constexpr int together_tags = 0x3000'0000;

/// What a communicator's collectives keep between calls (shared flags, sequence numbers); `coll/` derives
/// from it.
class CollectiveState {
 public:
  virtual ~CollectiveState() = default;
};

/// The blocking collective that this process is in on a communicator (`coll::InCollective`).
struct CurrentCollective {
  /// Null: in none.
  void (*say)(const void* call, const Communicator& comm, wire::WaitReport& report) noexcept = nullptr;
  const void* call = nullptr;
  std::uint64_t number = 0;  ///< of those begun so far
};

/// A group of processes with matching spaces of its own (MPI 5.0, chapter 7). Holds no algorithm:
/// point-to-point is `engine()`'s, collectives are `coll/`'s. Freed objects live on until pending operations
/// have let go of them.
class Communicator final : public RefCounted {
 public:
  /// An intracommunicator. `engine`'s process must be in `group`. Opens the contexts `context` and `context +
  /// 1`.
  static Ref<Communicator> make(Engine& engine, Ref<Group> group, ContextId context);
  /// An intercommunicator: `local` talks to `remote`.
  static Ref<Communicator> make_inter(Engine& engine, Ref<Group> local, Ref<Group> remote, ContextId context,
                                      bool local_is_low);

  /// The same of what processes have agreed on, as far as this one has been told: an error where it cannot be
  /// true. See `Engine::check`.
  static Result<Ref<Communicator>> make_agreed(Engine& engine, Ref<Group> group,
                                               const ContextProposal& proposal);
  static Result<Ref<Communicator>> make_agreed_inter(Engine& engine, Ref<Group> local, Ref<Group> remote,
                                                     const ContextProposal& proposal, bool local_is_low);

  [[nodiscard]] Engine& engine() const noexcept { return engine_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] bool is_inter() const noexcept { return static_cast<bool>(remote_group_); }
  /// Size of the group that messages go to: the remote group of an intercommunicator, else the group.
  [[nodiscard]] int remote_size() const noexcept { return remote_size_; }
  /// How many ranks messages may go to: `remote_size()`, none once the communicator is revoked.
  [[nodiscard]] int ranks_in_reach() const noexcept { return ranks_in_reach_; }
  [[nodiscard]] const Ref<Group>& group() const noexcept { return group_; }
  [[nodiscard]] const Ref<Group>& remote_group() const noexcept { return remote_group_; }
  /// Which of two groups comes first in MPI_Intercomm_merge where both ask for the same.
  [[nodiscard]] bool local_is_low() const noexcept { return local_is_low_; }

  /// Process of rank `rank` in the group that messages go to.
  [[nodiscard]] PeerId peer(int rank) const noexcept {
    return peers_ ? peers_[rank] : static_cast<PeerId>(rank);
  }
  [[nodiscard]] ContextId context_id() const noexcept { return context_id_; }
  /// Matching spaces of point-to-point and of collective messages.
  [[nodiscard]] MatchContext& context() const noexcept { return *context_; }
  [[nodiscard]] MatchContext& collective_context() const noexcept { return *collective_context_; }

  [[nodiscard]] Target target(int rank, int tag) const noexcept {
    return {peer(rank), context_id_, rank_, tag};
  }
  [[nodiscard]] Target collective_target(int rank, int tag) const noexcept {
    return {peer(rank), context_id_ + 1, rank_, tag};
  }

  /// Whether nothing can be done together any more: a member is lost, or the communicator is revoked.
  [[nodiscard]] bool is_broken() const noexcept { return broken_; }
  [[nodiscard]] bool is_revoked() const noexcept { return context_->is_broken_off(); }
  /// Nothing is done together here any more by this process: it has left something in the middle, and the
  /// others may be there still.
  void give_up() noexcept { broken_ = true; }
  /// From now on `part`, of some of its members, is broken at the latest when this one is.
  void breaks_with(Communicator& part);
  /// Why, where it `is_broken()`.
  [[nodiscard]] Error why_broken() const;
  /// Ends all that is done on it, here and, as they hear of it, at the other members.
  void revoke(ErrorClass why) { engine_.revoke(context_id_, why); }

  // What programs hang on a communicator.
  std::string name;
  Ref<Errhandler> errhandler;
  Ref<Info> info;
  AttributeSet attributes;
  Ref<SendBuffer> send_buffer;  ///< of MPI_Comm_attach_buffer; null while there is none
  Ref<RefCounted> stream;       ///< what its operations are enqueued on (`stream/`); null: nothing
  Ref<RefCounted> board;        ///< what its members' GPUs meet by (`stream::Board`); null: they do not
  std::unique_ptr<CollectiveState> collective_state;
  std::unique_ptr<CollectiveState> neighborhood;  ///< made of the topology at its first use
  FramePool frames;                               ///< of flows (`coll/flow`)
  std::unique_ptr<CollectiveState> lane_state;    ///< of collectives that do not block (`coll/flow`)
  const bool checks;                              ///< that members' collectives fit (ISTHMUS_CHECK)
  // Collectives that were opened so far (`coll::Lane`).
  std::uint32_t nonblocking_lanes = 0;
  std::uint32_t persistent_lanes = 0;
  CurrentCollective current;

 private:
  Communicator(Engine& engine, Ref<Group> group, Ref<Group> remote, ContextId context, bool local_is_low);
  ~Communicator() override;

  Engine& engine_;
  Ref<Group> group_;
  Ref<Group> remote_group_;
  std::unique_ptr<PeerId[]> peers_;  ///< null where rank i is process i
  int rank_ = 0;
  int size_ = 0;
  int remote_size_ = 0;
  bool local_is_low_ = false;
  int ranks_in_reach_ = 0;
  bool broken_ = false;
  ContextId context_id_ = 0;
  std::vector<PeerId> both_groups_;  ///< of an intercommunicator
  MatchContext* context_ = nullptr;
  MatchContext* collective_context_ = nullptr;
};

/// `congruent` where only the contexts differ (MPI 5.0, section 7.4.1).
[[nodiscard]] Comparison compare(const Communicator& first, const Communicator& second);

}  // namespace isthmus
