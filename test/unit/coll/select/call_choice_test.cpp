// What rank 0 of a team decides about the ways of its calls, by costs that the tests make up.
#include "coll/select/call_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <vector>

namespace isthmus::coll::call_choice_test {
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

  Calls(TeamWay assumed, TeamWays possible, Cost cost, std::optional<CallChoice::Hint> hint = {},
        CallSettling settling = {})
      : choice_(assumed, possible, lead, hint, CallChoice::patience, settling),
        assumed_(assumed),
        cost_(std::move(cost)) {}
  /// So many calls of other kinds.
  void skip(std::uint32_t steps) { step_ += steps; }

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
  /// Whether messages of the call that goes next still learn their own way; asked before its cost.
  void set_learning(std::function<bool()> learning) { learning_ = std::move(learning); }

 private:
  struct Measured {
    std::uint32_t call;
    TeamWay way;
    std::optional<std::uint32_t> index;
    bool is_learning;
    double cost;
  };

  TeamWay call() {
    while (!measured_.empty() && step_ - measured_.front().call > lead) {
      const Measured& front = measured_.front();
      choice_.took(front.way, front.index, front.cost, front.is_learning);
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
    const bool is_learning = way == TeamWay::messages && learning_();
    if (index || step_ % 4 == 0) measured_.push_back({step_, way, index, is_learning, cost_(way, step_)});
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
  std::function<bool()> learning_ = [] { return false; };
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

/// Messages go for a while before their turn; the others do not.
TEST(CallSchedule, LetsMessagesSettleBeforeTheirTurn) {
  CallSchedule schedule{
      .from = 5, .after = flat, .turn = 4, .tried = ways({flat, direct, messages}), .settling = 30};
  EXPECT_EQ(CallSchedule::of(schedule.packed()), schedule);
  EXPECT_EQ(schedule.calls(), 42U);
  EXPECT_FALSE(schedule.turn_at(4).counts) << "the first of a turn never counts";
  EXPECT_TRUE(schedule.turn_at(5).counts);
  EXPECT_EQ(schedule.way_at(8), messages);
  EXPECT_EQ(schedule.way_at(41), messages);
  EXPECT_FALSE(schedule.turn_at(38).counts);
  EXPECT_TRUE(schedule.turn_at(39).counts);
  schedule.reversed = true;
  EXPECT_EQ(schedule.way_at(33), messages);
  EXPECT_EQ(schedule.way_at(34), direct);
  schedule.tried.remove(messages);
  EXPECT_EQ(schedule.calls(), 8U);
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

/// The number of a step has 32 bits.
TEST(CallChoice, LearnsBehindAnyNumberOfOtherCalls) {
  for (const std::uint32_t others : {1'000'000U, 0x7fff'ffffU, 0x8000'0001U, 0xc000'0000U, 0xffff'ffc0U}) {
    Calls calls(direct_both, ways({staged, direct_both}), constant({1, 1, 1, 1, 1, 1, 1, 1}));
    calls.skip(others);
    calls.set_cost([](TeamWay way, std::uint32_t) { return way == staged ? 5.0 : 10.0; });
    calls.run(100);
    EXPECT_EQ(calls.choice().way(), staged) << others;
    calls.skip(0x7000'0000);
    calls.set_cost([](TeamWay way, std::uint32_t) { return way == staged ? 50.0 : 10.0; });
    calls.run(200);
    EXPECT_EQ(calls.choice().way(), direct_both) << others;
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

/// Of the calls of one way nothing may be known, because the program computed during all of them.
TEST(CallChoice, StaysWhereNothingIsKnownOfItsOwnWay) {
  Calls calls(direct, ways({staged, direct}),
              [](TeamWay way, std::uint32_t) { return way == direct ? 0.0 : 5.0; });
  calls.run(500);
  EXPECT_EQ(calls.choice().way(), direct);
}

TEST(CallChoice, MessagesThatLearnTheirOwnWayFirstAreFoundWithinAHundredCalls) {
  CallChoice choice(direct_both, ways({direct, direct_both, messages}), lead, {}, 0, {.calls = 30});
  std::uint32_t gone_by_messages = 0;
  CallSchedule schedule;
  for (std::uint32_t call = 1; call <= 80; ++call) {
    if (const auto said = choice.next(call)) schedule = *said;
    const std::uint32_t place = call - schedule.from;
    const bool in_turn = schedule.has_begun(call) && place < schedule.calls();
    const TeamWay way = in_turn ? schedule.way_at(place) : choice.way();
    gone_by_messages += way == messages ? 1 : 0;
    // Slow as the others at first.
    const double cost = way == messages && gone_by_messages > 25 ? 2 : 20;
    choice.took(way, in_turn ? std::optional(place) : std::nullopt, cost);
  }
  EXPECT_EQ(choice.way(), messages);
}

/// A staged call of 10, and messages of 16 that take 8 when they have learned their own way.
TEST(CallChoice, IsNotSettledByMessagesThatStillTryWays) {
  for (const bool settles : {false, true}) {
    std::uint32_t over_messages = 0;
    Calls calls(direct_both, ways({staged, direct, direct_both, messages}),
                [](TeamWay, std::uint32_t) { return 0; }, {},
                {.calls = static_cast<std::uint8_t>(settles ? 36 : 0), .is_late = true});
    calls.set_cost([&](TeamWay way, std::uint32_t) {
      if (way != messages) return way == staged ? 10.0 : 15.0;
      return ++over_messages <= 36 ? 16.0 : 8.0;
    });
    const auto taken = calls.run(200);
    EXPECT_EQ(calls.choice().way(), settles ? messages : staged);
    EXPECT_EQ(calls.choice().predicted(messages), settles ? 8 : 16);
    for (std::size_t call = 130; call < taken.size(); ++call)
      EXPECT_EQ(taken[call], settles ? messages : staged) << call;
  }
}

/// As above, where each of two senders has half of the calls, and needs 180 of its own.
TEST(CallChoice, GivesMessagesAsLongAsTheySayThatTheyLearn) {
  std::uint32_t over_messages = 0;
  Calls calls(direct_both, ways({flat, direct, direct_both, messages}),
              [](TeamWay, std::uint32_t) { return 0; }, {}, {.calls = 36});
  calls.set_learning([&] { return over_messages < 360; });
  calls.set_cost([&](TeamWay way, std::uint32_t) {
    if (way != messages) return way == direct_both ? 5.4 : 15.0;
    return ++over_messages <= 360 ? 7.0 : 2.0;
  });
  const auto taken = calls.run(800);
  EXPECT_EQ(calls.choice().way(), messages);
  EXPECT_EQ(calls.choice().predicted(messages), 2);
  EXPECT_EQ(std::ranges::count(taken.begin() + 600, taken.end(), messages), 200);
}

TEST(CallChoice, DoesNotWaitForEverForMessagesThatLearn) {
  for (const double cost : {7.0, 12.0}) {
    Calls calls(direct_both, ways({flat, direct, direct_both, messages}),
                [=](TeamWay way, std::uint32_t) {
                  return way == messages ? cost : way == direct_both ? 5.0 : 15.0;
                },
                {}, {.calls = 36});
    calls.set_learning([] { return true; });
    const auto taken = calls.run(1000);
    EXPECT_EQ(calls.choice().way(), direct_both);
    // Far slower than others, they are out of the question whatever they learn.
    const std::uint32_t rounds = cost < CallChoice::hopeless_unlearned * 5 ? CallChoice::most_settling : 0;
    EXPECT_LE(std::ranges::count(taken, messages),
              36 + CallChoice::first_turn + rounds * (CallChoice::more_settling + CallChoice::first_turn) +
                  CallChoice::first_turn)
        << "one look included";
    EXPECT_EQ(std::ranges::count(taken, messages) > 200, rounds > 0);
  }
}

/// They are out of the question whatever they learn.
TEST(CallChoice, DoesNotWaitForMessagesThatAreFarTooSlow) {
  Calls calls(direct_both, ways({staged, direct, direct_both, messages}),
              constant({9, 10, 9, 15, 15, 9, 21, 9}), {}, {.calls = 36, .is_late = true});
  const auto taken = calls.run(300);
  EXPECT_EQ(std::ranges::count(taken, messages), CallChoice::first_turn);
}

/// Flows may ask in any order within `lead`. Whoever has not finished a call still finds how it goes.
TEST(CallChoice, CallsMayAskInAnyOrder) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    std::mt19937 random(seed);
    CallChoice choice(direct, ways({flat, staged, direct, messages}), lead, {}, 0, {.calls = 3});
    std::uint64_t word = 0;
    std::map<std::uint32_t, std::optional<TeamWay>> gone;
    std::vector<std::uint32_t> under_way;  // asked by rank 0, and not by the other
    std::vector<std::uint32_t> to_ask;
    std::uint32_t next = 1;
    const auto read = [&](std::uint32_t number) -> std::optional<TeamWay> {
      const CallSchedule schedule = CallSchedule::of(word);
      if (!schedule.has_begun(number)) return schedule.before;
      const std::uint32_t place = number - schedule.from;
      return place < schedule.calls() ? std::optional(schedule.way_at(place)) : schedule.after;
    };
    const auto take = [&](std::vector<std::uint32_t>& from) {
      const std::size_t at = random() % from.size();
      const std::uint32_t number = from[at];
      from.erase(from.begin() + static_cast<std::ptrdiff_t>(at));
      return number;
    };
    const auto oldest = [&] {
      std::uint32_t least = next;
      for (const auto& list : {to_ask, under_way})
        for (const std::uint32_t each : list)
          least = std::min(least, each);
      return least;
    };
    while (next < 3000) {
      if (random() % 3 == 0 && next < oldest() + lead) to_ask.push_back(next++);
      if (!to_ask.empty() && random() % 2 == 0) {
        const std::uint32_t number = take(to_ask);
        if (const auto said = choice.next(number)) word = said->packed();
        gone[number] = read(number);
        const double cost = 1 + static_cast<double>(random() % 1000);
        choice.took(gone[number].value_or(direct), std::nullopt, cost);
        under_way.push_back(number);
      }
      if (!under_way.empty() && random() % 2 == 0) {
        const std::uint32_t number = take(under_way);
        ASSERT_EQ(read(number), gone[number]) << "call " << number << ", seed " << seed;
      }
    }
    EXPECT_GT(choice.trials(), 1U);
  }
}

TEST(CallChoice, ClocksThatSayNothingLeaveTheTable) {
  for (const double cost : {0.0, -1.0}) {
    Calls calls(direct, ways({staged, direct}), [cost](TeamWay, std::uint32_t) { return cost; });
    calls.run(500);
    EXPECT_EQ(calls.choice().way(), direct);
  }
}

}  // namespace
}  // namespace isthmus::coll::call_choice_test
