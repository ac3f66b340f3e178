#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "coll/area/stripe.hpp"
#include "coll/flow/flow.hpp"
#include "coll/lanes/lane_choice.hpp"
#include "coll/lanes/live_lanes.hpp"
#include "comm/communicator.hpp"
#include "p2p/engine.hpp"

namespace isthmus::coll {

class LaneTeam;

/// One step of a stripe, which this member has taken, and what resumes the flow that is in it. Whoever holds
/// it finishes the step, in the end.
class Place {
 public:
  Place() = default;
  Place(LaneTeam& team, Stripe& stripe, Driver& driver) noexcept
      : team_(&team), stripe_(&stripe), step_(stripe.take()), driver_(&driver) {}
  Place(Place&& other) noexcept
      : team_(std::exchange(other.team_, nullptr)),
        stripe_(other.stripe_),
        step_(other.step_),
        driver_(other.driver_) {}
  Place& operator=(Place&&) = delete;
  inline ~Place();
  /// Finishes the step now; empty from then on.
  inline void finish() noexcept;
  /// The step has been finished otherwise; empty from then on.
  void forget() noexcept { team_ = nullptr; }

  explicit operator bool() const noexcept { return team_ != nullptr; }
  [[nodiscard]] LaneTeam& team() const noexcept { return *team_; }
  [[nodiscard]] Stripe& stripe() const noexcept { return *stripe_; }
  [[nodiscard]] std::uint64_t step() const noexcept { return step_; }
  [[nodiscard]] Driver* driver() const noexcept { return driver_; }
  /// For the frames of flows.
  [[nodiscard]] inline Communicator& comm() const noexcept;

 private:
  LaneTeam* team_ = nullptr;
  Stripe* stripe_ = nullptr;
  std::uint64_t step_ = 0;
  Driver* driver_ = nullptr;
};

/// Of a call whose way is learned, as it starts: alike at all members.
struct CallNumber {
  std::uint64_t number = 0;  ///< on its stripe
  std::uint32_t in_class = 0;
};

/// While a call is under way that is measured: tells in the end what it took this member.
class CallTiming {
 public:
  CallTiming(const Place& place, std::uint64_t number) noexcept;
  ~CallTiming();
  CallTiming(const CallTiming&) = delete;
  CallTiming& operator=(const CallTiming&) = delete;

 private:
  LaneTeam& team_;
  const Stripe& stripe_;
  CallTime& time_;
  std::uint64_t step_, number_;
  std::uint64_t began_, began_present_;
  std::uint64_t began_unsettled_;  ///< messages
  bool is_alone_;
};

/// What the members of a communicator, all on one host, need to carry out nonblocking and persistent
/// collectives in shared memory: a stripe for all nonblocking ones, and one for each persistent one.
///
/// Made without a word to anybody. The memory is agreed on by a flow of its own, which begins at each member
/// with its first such collective; what is started before it is there waits for it, as a flow.
class LaneTeam final : public CollectiveState {
 public:
  /// Beyond that, messages. Up to `flat_ranks` everybody looks at everybody's line, more go by `Neighbors`.
  static constexpr int most_members = flat_ranks * flat_ranks;

  /// Null where the members do not share memory, or are too many; alike at all members.
  static LaneTeam* of(Communicator& comm) {
    if (!comm.lane_state) [[unlikely]]
      make(comm);
    auto* const team = static_cast<LaneTeam*>(comm.lane_state.get());
    return team->state_ == State::impossible ? nullptr : team;
  }
  LaneTeam(const LaneTeam&) = delete;
  LaneTeam& operator=(const LaneTeam&) = delete;
  ~LaneTeam() override;

  [[nodiscard]] Communicator& comm() const noexcept { return comm_; }
  [[nodiscard]] int rank() const noexcept { return comm_.rank(); }
  [[nodiscard]] int size() const noexcept { return comm_.size(); }
  [[nodiscard]] Engine& engine() const noexcept { return engine_; }
  [[nodiscard]] PeerId peer(int rank) const noexcept { return comm_.peer(rank); }
  [[nodiscard]] bool sleeps() const noexcept { return sleeps_; }
  /// Whether who has read the team's memory alone hands back its lines (`hand_back_lines`).
  [[nodiscard]] bool hands_back() const noexcept { return hands_back_; }
  /// Whether members are lost that others may wait for in vain.
  [[nodiscard]] bool is_broken() const noexcept { return comm_.is_broken(); }
  [[nodiscard]] bool is_lost(int rank) const noexcept { return engine_.has_lost(peer(rank)); }
  [[nodiscard]] std::unexpected<Error> loss() const { return std::unexpected(comm_.why_broken()); }

  /// Whether `lane` has a stripe, which follows from its number alone.
  [[nodiscard]] bool has_stripe(const Lane& lane) const noexcept {
    // What is compared before it begins does not begin in the same order everywhere.
    if (lane.kind == Lane::Kind::nonblocking) return !comm_.checks;
    return lane.kind == Lane::Kind::persistent && lane.number < persistent_stripes;
  }
  /// The next step on `lane`, which has a stripe.
  Place take(const Lane& lane) noexcept {
    return {*this, lane.kind == Lane::Kind::nonblocking ? nonblocking_ : persistent_[lane.number],
            *lane.driver};
  }
  [[gnu::always_inline]] void finish(Stripe& stripe, std::uint64_t step) noexcept {
    if (stripe.finish(step) && sleeps_) wake_writers();
  }

  /// Whether the memory is there.
  [[nodiscard]] bool is_ready() const noexcept { return state_ == State::ready; }
  /// Whether it could not be agreed on here for want of memory, and the others wait for this member.
  [[nodiscard]] bool has_failed() const noexcept { return state_ == State::failed; }
  /// To be awaited by a flow, on its `driver`: `is_ready`, or the region has no room, or `has_failed`.
  class Ready;
  [[nodiscard]] Ready ready(Driver* driver) noexcept;

  /// Whether all members read and write each other's memory; null while that is not known.
  [[nodiscard]] const bool* direct() const noexcept { return direct_ ? &*direct_ : nullptr; }
  /// To be awaited by a flow: `direct` is known. Each member tries its own ways when it is first asked and
  /// all others have joined, and no sooner.
  class Direct;
  [[nodiscard]] Direct know_direct(Driver* driver) noexcept;

  /// What `asked` is answered with on a lane of this kind.
  [[gnu::always_inline]] const LaneChoice& choose(const LaneQuestion& asked, Lane::Kind kind) {
    return choices_.find(asked, size(), kind);
  }

  /// The number of a call that starts on `lane` in a place of that stripe, and whose way is learned.
  [[nodiscard]] CallNumber number(Stripe& stripe, const Lane& lane, const LaneQuestion& asked) noexcept;
  struct LiveWay {
    std::optional<Algorithm> algorithm;  ///< null: over messages
    std::uint64_t measured = 0;          ///< the call's number, for `CallTiming`; 0: it is not measured
  };
  /// How a call goes that the table has for `by_table`, which copies directly or not as `direct` has it. For
  /// a place for which its stripe is free: all members have finished the step `live_depth` before it.
  /// `elementwise`: as in `Reducing`.
  [[nodiscard]] LiveWay live(const Place& place, const Lane& lane, const CallNumber& number,
                             const LaneQuestion& asked, bool elementwise, Algorithm by_table);
  /// How many steps a call whose way may be learned may be ahead of the slowest member; alike at all members.
  /// The memory is there.
  [[nodiscard]] std::uint64_t live_depth(const Stripe& stripe) const noexcept {
    return by_table_ ? stripe.memory().depth : stripe.memory().lead();
  }
  /// Those that are measured and under way.
  [[nodiscard]] int& measured() noexcept { return measured_; }
  /// While a call is under way that is over messages because that is what has been learned, or to be: its
  /// place is free for others.
  class OverMessages {
   public:
    explicit OverMessages(LaneTeam& team) noexcept : team_(team) { ++team_.over_messages_; }
    ~OverMessages() { --team_.over_messages_; }
    OverMessages(const OverMessages&) = delete;
    OverMessages& operator=(const OverMessages&) = delete;

   private:
    LaneTeam& team_;
  };
  [[nodiscard]] int over_messages() const noexcept { return over_messages_; }
  /// For how many ticks a rank may be out of MPI in any call that teaches something.
  [[nodiscard]] std::uint64_t most_away() noexcept;

  void notify(int rank) noexcept { engine_.notify(peer(rank)); }
  void notify_all() noexcept {
    if (sleeps_) wake_all();
  }
  /// While a collective waits for others to finish a step.
  void count_waiting(int change) noexcept {
    if (sleeps_)
      area_.header().waiting.fetch_add(static_cast<std::uint32_t>(change), std::memory_order_seq_cst);
  }

 private:
  enum class State : std::uint8_t { unknown, agreeing, ready, impossible, failed };
  /// While a flow agrees: however it ends, nobody waits for it any more.
  class Agreeing;

  explicit LaneTeam(Communicator& comm);
  static void make(Communicator& comm);
  /// Rank 0 takes the memory and tells the others where it is.
  static Flow agree(Ranks ranks, LaneTeam& team);
  Result<> enter();
  void begin();
  void try_reach();
  void try_reach_again() noexcept;
  bool look_for_direct() noexcept;
  void prepare_turn(TeamWay way, std::uint64_t bytes);
  void wake_all() noexcept;
  void wake_writers() noexcept;

  static constexpr std::uint64_t nowhere = ~std::uint64_t{0};

  Communicator& comm_;
  Engine& engine_;
  const bool sleeps_;
  const bool hands_back_;
  State state_ = State::unknown;
  std::optional<bool> direct_;
  bool asks_for_reach_ = false;  ///< a flow has asked for `direct`
  bool tried_reach_ = false;
  LaneArea area_;
  std::uint64_t offset_ = nowhere;
  LaneChoices choices_;
  LiveLanes live_;
  Stripe nonblocking_;
  std::array<Stripe, persistent_stripes> persistent_;
  Driver driver_;
  std::optional<Flow> agreement_;
  bool by_table_ = true;
  int measured_ = 0;
  int over_messages_ = 0;
  std::uint64_t most_away_ = 0;
  std::uint64_t touched_ = 0;  ///< bytes of each long slot
  std::uint64_t mapped_ = 0;   ///< bytes of the rings
  std::array<std::uint32_t, call_classes> numbered_{};
};

class LaneTeam::Ready final : public Awaited {
 public:
  Ready(LaneTeam& team, Driver* driver) noexcept : team_(team), driver_(driver) {}
  bool begin() {
    if (team_.state_ == State::unknown) team_.begin();
    return is_complete();
  }
  [[nodiscard]] Driver* driver() const noexcept { return driver_; }
  [[nodiscard]] bool is_complete() const noexcept override {
    return team_.state_ != State::unknown && team_.state_ != State::agreeing;
  }
  /// What else kept the members from agreeing, all of which turn to messages, is nothing to a collective.
  [[nodiscard]] Result<> end() const {
    if (!team_.has_failed()) return {};
    return fail(ErrorClass::no_mem);
  }

 private:
  LaneTeam& team_;
  Driver* driver_;
};

class LaneTeam::Direct final : public Awaited {
 public:
  Direct(LaneTeam& team, Driver* driver) noexcept : team_(team), driver_(driver) {}
  bool begin() {
    team_.asks_for_reach_ = true;
    if (!team_.tried_reach_) team_.try_reach();
    return is_complete();
  }
  [[nodiscard]] Driver* driver() const noexcept { return driver_; }
  [[nodiscard]] bool is_complete() const noexcept override {
    return team_.look_for_direct() || team_.is_broken();
  }
  Result<> end() {
    if (team_.look_for_direct()) return {};
    return team_.loss();
  }

 private:
  LaneTeam& team_;
  Driver* driver_;
};

inline LaneTeam::Ready LaneTeam::ready(Driver* driver) noexcept {
  return {*this, driver};
}
inline LaneTeam::Direct LaneTeam::know_direct(Driver* driver) noexcept {
  return {*this, driver};
}

[[gnu::always_inline]] Place::~Place() {
  if (team_) finish();
}
[[gnu::always_inline]] void Place::finish() noexcept {
  std::exchange(team_, nullptr)->finish(*stripe_, step_);
}
Communicator& Place::comm() const noexcept {
  return team_->comm();
}

}  // namespace isthmus::coll
