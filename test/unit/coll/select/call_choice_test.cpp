// What rank 0 of a team decides about the ways of its calls, by costs that the tests make up.
#include "coll/select/call_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <vector>

namespace isthmus::coll {
namespace {

constexpr std::uint32_t lead = 8;

TeamWays ways(std::initializer_list<TeamWay> list) {
  TeamWays all;
  for (const TeamWay way : list)
    all.add(way);
  return all;
}

/// A team whose calls take a step each, and what `cost` says. Costs are known `lead + 1` calls later.
class Calls {
 public:
  using Cost = std::function<double(TeamWay way, std::uint32_t call)>;

  Calls(TeamWay assumed, TeamWays possible, Cost cost, std::optional<CallChoice::Hint> hint = {})
      : choice_(assumed, possible, lead, hint), assumed_(assumed), cost_(std::move(cost)) {}

  /// The ways that so many more calls took.
  std::vector<TeamWay> run(std::uint32_t calls) {
    std::vector<TeamWay> taken;
    for (std::uint32_t i = 0; i < calls; ++i)
      taken.push_back(call());
    return taken;
  }
  [[nodiscard]] CallChoice& choice() { return choice_; }
  [[nodiscard]] std::uint32_t done() const { return step_ - 1; }
  void set_cost(Cost cost) { cost_ = std::move(cost); }

 private:
  struct Measured {
    std::uint32_t call;
    TeamWay way;
    std::optional<std::uint32_t> index;
    double cost;
  };

  TeamWay call() {
    while (!measured_.empty() && measured_.front().call + lead + 1 <= step_) {
      const Measured& front = measured_.front();
      choice_.took(front.way, front.index, front.cost);
      measured_.pop_front();
    }
    if (const auto said = choice_.next(step_)) {
      // Whoever is `lead` steps behind goes by what was said before, as all do who read this now.
      for (std::uint32_t behind = step_ > lead ? step_ - lead + 1 : 1; behind < step_ + lead; ++behind) {
        EXPECT_FALSE(said->has_begun(behind));
        EXPECT_EQ(going(behind, schedule_, in_schedule_).first, said->before.value_or(assumed_)) << behind;
      }
      EXPECT_EQ(CallSchedule::of(said->packed()), *said);
      schedule_ = *said;
      in_schedule_ = 0;
    }
    const auto [way, index] = going(step_, schedule_, in_schedule_);
    if (schedule_.has_begun(step_)) ++in_schedule_;
    if (index || step_ % 4 == 0) measured_.push_back({step_, way, index, cost_(way, step_)});
    ++step_;
    return way;
  }
  /// `calls`: how many of the schedule have begun.
  [[nodiscard]] std::pair<TeamWay, std::optional<std::uint32_t>> going(std::uint32_t step,
                                                                       const CallSchedule& schedule,
                                                                       std::uint32_t calls) const {
    if (!schedule.has_begun(step)) return {schedule.before.value_or(assumed_), std::nullopt};
    if (calls < schedule.calls()) return {schedule.way_at(calls), calls};
    return {schedule.after.value_or(assumed_), std::nullopt};
  }

  CallChoice choice_;
  TeamWay assumed_;
  Cost cost_;
  std::uint32_t step_ = 1;
  CallSchedule schedule_;
  std::uint32_t in_schedule_ = 0;
  std::deque<Measured> measured_;
};

Calls::Cost constant(std::array<double, team_way_count> costs) {
  return [costs](TeamWay way, std::uint32_t) { return costs[static_cast<std::size_t>(way)]; };
}

using enum TeamWay;

TEST(CallSchedule, AWordOfNothingIsTheTable) {
  const CallSchedule schedule = CallSchedule::of(0);
  EXPECT_EQ(schedule, CallSchedule{});
  EXPECT_TRUE(schedule.has_begun(1));
  EXPECT_EQ(schedule.calls(), 0U);
}

TEST(CallSchedule, SaysWhoseTurnItIs) {
  const CallSchedule schedule{
      .from = 0xffff'fff0, .before = flat, .after = tree, .turn = 3, .tried = ways({flat, direct, tree})};
  EXPECT_EQ(CallSchedule::of(schedule.packed()), schedule);
  EXPECT_FALSE(schedule.has_begun(0xffff'ffef));
  EXPECT_TRUE(schedule.has_begun(0xffff'fff0));
  EXPECT_TRUE(schedule.has_begun(5)) << "steps go on behind 32 bits";
  EXPECT_EQ(schedule.calls(), 9U);
  EXPECT_EQ(schedule.way_at(2), flat);
  EXPECT_EQ(schedule.way_at(3), direct);
  CallSchedule reversed = schedule;
  reversed.reversed = true;
  EXPECT_EQ(reversed.way_at(0), tree);
  EXPECT_EQ(reversed.way_at(8), flat);
}

TEST(CallSchedule, AnyWordCanBeAskedForAnyCall) {
  std::uint64_t word = 1;
  for (int i = 0; i < 100'000; ++i) {
    word = word * 6364136223846793005U + 1442695040888963407U;
    const CallSchedule schedule = CallSchedule::of(word);
    for (std::uint32_t index = 0; index < schedule.calls(); ++index)
      ASSERT_LT(static_cast<std::size_t>(schedule.way_at(index)), team_way_count) << word;
    if (schedule.after) {
      ASSERT_LT(static_cast<std::size_t>(*schedule.after), team_way_count);
    }
  }
}

TEST(CallChoice, TenCallsGoAsTheTableHasIt) {
  Calls calls(direct, ways({staged, direct, messages}), constant({9, 1, 9, 9, 9, 9, 1, 9}));
  for (const TeamWay way : calls.run(CallChoice::patience))
    EXPECT_EQ(way, direct);
}

TEST(CallChoice, TakesTheFastestWithinAHundredCalls) {
  for (const TeamWay best : {staged, direct, direct_both, messages}) {
    Calls calls(
        direct_both, ways({staged, direct, direct_both, messages}),
        [best](TeamWay way, std::uint32_t call) { return (way == best ? 10.0 : 11.5) + 0.1 * (call % 7); });
    calls.run(100);
    EXPECT_EQ(calls.choice().way(), best);
    for (const TeamWay way : calls.run(100))
      EXPECT_EQ(way, best) << name(best);
  }
}

TEST(CallChoice, LeavesTheTableForNoLessThanFivePerCent) {
  Calls calls(flat, ways({flat, direct}), constant({10, 9, 9, 9.7, 9, 9, 9, 9}));
  calls.run(1000);
  EXPECT_EQ(calls.choice().way(), flat);
  EXPECT_EQ(calls.choice().trials(), 1U);
}

TEST(CallChoice, AWayThatIsFarSlowerHasOneTurn) {
  Calls calls(flat, ways({flat, staged, direct, messages}), constant({10, 10.5, 9, 10.2, 9, 9, 100, 9}));
  const std::vector<TeamWay> taken = calls.run(300);
  EXPECT_EQ(std::ranges::count(taken, messages), CallChoice::first_turn);
  EXPECT_GE(std::ranges::count(taken, staged), CallChoice::first_turn + CallChoice::second_turn);
}

TEST(CallChoice, NoMoreThanTwoPerCentLookAtOtherWays) {
  // The worst case: each look finds another way faster, and the two turns behind it do not.
  Calls calls(flat, ways({flat, staged, counted, direct, direct_all}), [](TeamWay way, std::uint32_t call) {
    return way == flat ? 10.0 : call % 3 == 0 ? 9.0 : 10.2;
  });
  calls.run(100);
  const std::uint64_t before = calls.choice().explored();
  calls.run(20'000);
  EXPECT_EQ(calls.choice().way(), flat);
  EXPECT_LE(calls.choice().explored() - before, 400U);
  EXPECT_GE(calls.choice().explored() - before, 16U) << "it never looks";
}

TEST(CallChoice, MovesWithinAHundredCallsWhenItsWayBecomesSlow) {
  const TeamWays all = ways({flat, staged, counted, direct, direct_all, messages});
  for (const std::uint32_t before : {100U, 333U, 1000U}) {
    Calls calls(direct, all, constant({12, 13, 13, 10, 14, 14, 15, 14}));
    calls.run(before);
    EXPECT_EQ(calls.choice().way(), direct);
    calls.set_cost(constant({12, 13, 13, 30, 14, 14, 15, 14}));
    calls.run(100);
    for (const TeamWay way : calls.run(100))
      EXPECT_EQ(way, flat) << before;
  }
}

TEST(CallChoice, FindsOutThatAnotherWayHasBecomeFaster) {
  Calls calls(direct, ways({staged, direct}), constant({9, 12, 9, 10, 9, 9, 9, 9}));
  calls.run(200);
  calls.set_cost(constant({9, 8, 9, 10, 9, 9, 9, 9}));
  calls.run(CallChoice::first_look + 100);
  EXPECT_EQ(calls.choice().way(), staged);
}

TEST(CallChoice, OneThatIsLateNowAndThenChangesNothing) {
  Calls calls(direct, ways({staged, direct}), [](TeamWay way, std::uint32_t call) {
    return call % 5 == 0 ? 1000.0 : way == direct ? 10.0 : 12.0;
  });
  calls.run(2000);
  EXPECT_EQ(calls.choice().way(), direct);
}

TEST(CallChoice, WhoeverIsToldBeginsWithThat) {
  Calls calls(direct, ways({staged, direct}), constant({9, 5, 9, 10, 9, 9, 9, 9}),
              CallChoice::Hint{.way = staged, .ticks_per_byte = 5});
  calls.run(CallChoice::patience + lead + 1);
  EXPECT_EQ(calls.choice().way(), staged);
  EXPECT_TRUE(calls.choice().is_told());
  for (const TeamWay way : calls.run(100))
    EXPECT_EQ(way, staged);
}

TEST(CallChoice, AHintThatIsWrongIsFoundOut) {
  Calls calls(direct, ways({staged, direct}), constant({9, 50, 9, 10, 9, 9, 9, 9}),
              CallChoice::Hint{.way = staged, .ticks_per_byte = 5});
  calls.run(120);
  EXPECT_EQ(calls.choice().way(), direct);
  Calls never(direct, ways({staged, direct}), constant({9, 50, 9, 10, 9, 9, 9, 9}),
              CallChoice::Hint{.way = tree, .ticks_per_byte = 5});
  for (const TeamWay way : never.run(500))
    EXPECT_NE(way, tree) << "a way that is not possible";
}

TEST(CallChoice, ClocksThatSayNothingLeaveTheTable) {
  for (const double cost : {0.0, -1.0}) {
    Calls calls(direct, ways({staged, direct}), [cost](TeamWay, std::uint32_t) { return cost; });
    calls.run(500);
    EXPECT_EQ(calls.choice().way(), direct);
  }
}

}  // namespace
}  // namespace isthmus::coll
