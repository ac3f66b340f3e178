#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "coll/call/call.hpp"
#include "coll/call/operands.hpp"
#include "coll/flow/flow.hpp"
#include "coll/lanes/lane_choice.hpp"
#include "coll/lanes/lane_team.hpp"
#include "coll/lanes/round.hpp"
#include "coll/messages/messages.hpp"
#include "coll/team/live_calls.hpp"

/// Nonblocking and persistent collectives in memory that all members share, where the blocking form would go
/// there too.
namespace isthmus::coll {

/// What a call is asked for its algorithm with. Empty where the data may not go through shared memory.
inline std::optional<LaneQuestion> lane_question(const call::Barrier&) {
  return LaneQuestion{.question = {.collective = Collective::barrier}};
}
inline std::optional<LaneQuestion> lane_question(const call::Bcast& c) {
  const std::uint64_t bytes = bytes_of(c.count, *c.type);
  return LaneQuestion{.question = {.collective = Collective::bcast, .bytes = bytes}, .room = bytes};
}
inline std::optional<LaneQuestion> lane_question(Collective collective, const Reduction& what) {
  if (!what.type->is_contiguous()) return std::nullopt;
  const std::uint64_t bytes = bytes_of(what.count, *what.type);
  return LaneQuestion{
      .question = {.collective = collective, .bytes = bytes, .commutative = what.op->commutative()},
      .room = bytes};
}
inline std::optional<LaneQuestion> lane_question(const call::Reduce& c) {
  return lane_question(Collective::reduce, c.what);
}
inline std::optional<LaneQuestion> lane_question(const call::Allreduce& c) {
  return lane_question(Collective::allreduce, c.what);
}

/// As in `Reducing`; where nothing is reduced it means nothing.
inline bool is_elementwise(const call::Barrier&) {
  return false;
}
inline bool is_elementwise(const call::Bcast&) {
  return false;
}
inline bool is_elementwise(const call::Reduce& c) {
  return is_elementwise(c.what);
}
inline bool is_elementwise(const call::Allreduce& c) {
  return is_elementwise(c.what);
}

/// Whether the way of such calls is learned. Never of those whose way does not depend on reach, as 8 B.
[[nodiscard]] inline bool is_live(const LaneChoice& choice, const LaneQuestion& asked) noexcept {
  return !choice.is_one() && LiveCalls::covers(asked.question.bytes);
}

// The flows. Frames hold what they are given; until there is one, nothing is copied: 8 B count instructions.
Flow in_lane(Algorithm algorithm, Place&& place, const call::Barrier& c);
Flow in_lane(Algorithm algorithm, Place&& place, const call::Bcast& c);
Flow in_lane(Algorithm algorithm, Place&& place, const call::Reduce& c);
Flow in_lane(Algorithm algorithm, Place&& place, const call::Allreduce& c);

/// A call whose way is learned and over messages, in a place that is free for it.
template <class Call>
Flow learned_over_messages(Ranks ranks, Place place, Call c) {
  const LaneTeam::OverMessages under_way(place.team());
  place.finish();
  co_await over_messages(ranks, c);
}

/// A call that is measured, in a place that is free for it.
template <class Call>
Flow measured_in_lane(Ranks ranks, Place place, Call c, LaneTeam::LiveWay way) {
  const CallTiming timing(place, way.measured);
  if (way.algorithm)
    co_await in_lane(*way.algorithm, std::move(place), c);
  else
    co_await learned_over_messages(ranks, std::move(place), c);
}

/// The same once it is known whether there is memory, and what the choice depends on.
template <class Call>
Flow when_known(Ranks ranks, Place place, Call c, LaneChoice choice, CallNumber number) {
  LaneTeam& team = place.team();
  co_await team.ready(ranks.driver());
  if (team.has_failed()) co_return;
  if (team.is_ready()) {
    if (!choice.is_one()) co_await team.know_direct(ranks.driver());
    std::optional<Algorithm> algorithm = choice.direct;
    if (!choice.is_one()) algorithm = team.direct() ? choice.of(*team.direct()) : std::nullopt;
    // A stripe keeps account of `nonblocking_depth` steps.
    bool given_up = false;
    const auto asked = lane_question(c);
    const bool may_be_live = algorithm && is_live(choice, *asked);
    if (may_be_live)
      co_await Vacant(place, team.live_depth(place.stripe()), given_up);
    else if (!algorithm)
      co_await Vacant(place, place.stripe().memory().depth, given_up);
    if (may_be_live && !given_up) {
      const LaneTeam::LiveWay way =
          team.live(place, ranks.lane(), number, *asked, is_elementwise(c), *algorithm);
      if (way.measured != 0) {
        co_await measured_in_lane(ranks, std::move(place), c, way);
        co_return;
      }
      if (!way.algorithm) {
        co_await learned_over_messages(ranks, std::move(place), c);
        co_return;
      }
      algorithm = way.algorithm;
    }
    if (algorithm) {
      co_await in_lane(*algorithm, std::move(place), c);
      co_return;
    }
  }
  place.finish();
  co_await over_messages(ranks, c);
}

/// Whether members that share memory can carry this call out there, in lanes.
template <class Call>
concept GoesInLanes = requires(const Call& c) { lane_question(c); };

/// How a persistent call goes, once that is known for all its starts.
class LaneWay {
 public:
  /// Null: it is not known yet, or it is another way than the lanes' for now or for ever.
  template <class Call>
  const Algorithm* find(const Ranks& ranks, const Call& c) {
    if (state_ == State::unknown) [[unlikely]] {
      // Only members that share memory may be asked: of an intercommunicator some have no data.
      team_ = ranks.driver() ? LaneTeam::of(ranks.comm()) : nullptr;
      state_ = team_ ? learn(ranks.lane(), lane_question(c)) : State::none;
    }
    return state_ == State::known ? &algorithm_ : nullptr;
  }
  [[nodiscard]] LaneTeam& team() const noexcept { return *team_; }

 private:
  enum class State : std::uint8_t { unknown, known, none };
  State learn(const Lane& lane, const std::optional<LaneQuestion>& asked);

  LaneTeam* team_ = nullptr;
  Algorithm algorithm_{};
  State state_ = State::unknown;
};

/// A call in a place that is free for it.
template <class Call>
Flow start_live(const Ranks& ranks, Place place, const Call& c, const LaneQuestion& asked,
                const CallNumber& number, Algorithm by_table) {
  LaneTeam& team = place.team();
  const LaneTeam::LiveWay way = team.live(place, ranks.lane(), number, asked, is_elementwise(c), by_table);
  if (way.measured != 0) {
    Flow flow = measured_in_lane(ranks, std::move(place), c, way);
    // From now on the program computes, until it makes progress.
    team.engine().live_plans().leave();
    return flow;
  }
  if (way.algorithm) return in_lane(*way.algorithm, std::move(place), c);
  return learned_over_messages(ranks, std::move(place), c);
}

/// Begins a collective on the lane of `ranks`, for buffers that the processor can load from and store to.
template <class Call>
[[gnu::always_inline]] inline Flow start_on_host(const Ranks& ranks, const Call& c) {
  if constexpr (GoesInLanes<Call>) {
    if (LaneTeam* const team = ranks.driver() ? LaneTeam::of(ranks.comm()) : nullptr) {
      if (const auto asked = lane_question(c)) {
        const LaneChoice choice = team->choose(*asked, ranks.lane().kind);
        if (!choice.is_none() && team->has_stripe(ranks.lane())) {
          Place place = team->take(ranks.lane());
          if (team->is_ready() && choice.is_one()) [[likely]]
            return in_lane(*choice.direct, std::move(place), c);
          CallNumber number;
          if (is_live(choice, *asked)) number = team->number(place.stripe(), ranks.lane(), *asked);
          if (team->is_ready()) {
            if (const bool* const is_direct = team->direct())
              if (const auto& algorithm = choice.of(*is_direct)) {
                if (!LiveCalls::covers(asked->question.bytes))
                  return in_lane(*algorithm, std::move(place), c);
                if (place.stripe().is_free(place.step(), team->live_depth(place.stripe())))
                  return start_live(ranks, std::move(place), c, *asked, number, *algorithm);
              }
          }
          Flow flow = when_known(ranks, std::move(place), c, choice, number);
          team->engine().live_plans().leave();  // as in `start_live`: it may be measured
          return flow;
        }
      }
    }
  }
  return over_messages(ranks, c);
}

}  // namespace isthmus::coll
