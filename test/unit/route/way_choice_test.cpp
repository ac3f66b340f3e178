#include "route/way_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <vector>

namespace isthmus::way_choice_test {
namespace {

constexpr std::array all_ways{LongWay::stream, LongWay::pull, LongWay::split};
constexpr std::uint64_t message_bytes = 65536;

/// What a message takes by a way, in ticks.
using Machine = std::function<double(LongWay)>;

/// A machine on which `fastest` takes 10,000 ticks a message, and the others 15,000.
Machine fast_at(LongWay fastest) {
  return [fastest](LongWay way) { return way == fastest ? 10'000.0 : 15'000.0; };
}

/// Sends batches of messages, and counts which way they have gone.
struct Sender {
  explicit Sender(WayChoice& choice) : choice(choice) {}

  void send(std::uint32_t messages, const Machine& machine, std::uint32_t batch = 1) {
    for (std::uint32_t sent = 0; sent < messages; sent += batch) {
      const WayChoice::Turn turn = choice.next();
      for (std::uint32_t i = 1; i < batch; ++i)
        choice.join();
      const std::uint32_t tried = std::min(turn.most, batch);
      gone[turn.way] += tried;
      if (tried < batch) gone[choice.way()] += batch - tried;
      if (turn.weight == WayChoice::Weight::none) continue;
      choice.took(turn, {.ticks = machine(turn.way) * tried + machine(choice.way()) * (batch - tried),
                         .bytes = message_bytes * batch,
                         .messages = batch,
                         .other_bytes = message_bytes * (batch - tried)});
    }
  }
  std::uint32_t other_than(LongWay way) {
    std::uint32_t sum = 0;
    for (const auto& [other, count] : gone)
      if (other != way) sum += count;
    return sum;
  }

  WayChoice& choice;
  std::map<LongWay, std::uint32_t> gone;
};

TEST(WayChoice, LeavesAJobOfFewMessagesAlone) {
  WayChoice choice(LongWay::split, all_ways);
  Sender sender(choice);
  sender.send(WayChoice::patience, fast_at(LongWay::stream));
  EXPECT_EQ(sender.other_than(LongWay::split), 0U);
}

TEST(WayChoice, FindsTheFastestWayWithinAHundredAndTenMessages) {
  for (const LongWay fastest : all_ways)
    for (const LongWay assumed : all_ways) {
      WayChoice choice(assumed, all_ways);
      Sender(choice).send(110, fast_at(fastest));
      EXPECT_TRUE(choice.is_settled());
      EXPECT_EQ(choice.way(), fastest);
    }
}

TEST(WayChoice, FindsItWhereSixtyFourAreUnderWayAtOnce) {
  WayChoice choice(LongWay::split, all_ways);
  Sender(choice).send(64 * 20, fast_at(LongWay::stream), 64);
  EXPECT_EQ(choice.way(), LongWay::stream);
}

/// A job of a hundred messages of 16 MiB would end before it had any good of what it learns.
TEST(WayChoice, FindsTwoSlowWaysOutByAQuarterOfTwoBatchesEach) {
  for (const std::uint32_t batch : {4U, 8U, 16U, 64U}) {
    WayChoice choice(LongWay::split, all_ways);
    Sender sender(choice);
    sender.send(40 * batch, fast_at(LongWay::split), batch);
    EXPECT_TRUE(choice.is_settled());
    EXPECT_LE(sender.other_than(LongWay::split), 2U * 2U * (batch / 4)) << "batches of " << batch;
  }
}

/// How many messages of the first batch in which another way is tried go that way, and of the next one, where
/// they take so many times as long.
std::vector<std::uint32_t> glimpses_of_a_way_slower_by(double times) {
  constexpr std::uint32_t batch = 64;
  constexpr std::array two{LongWay::split, LongWay::pull};
  WayChoice choice(LongWay::split, two);
  std::vector<std::uint32_t> glimpses;
  for (int i = 0; i < 40 && !choice.is_settled(); ++i) {
    const WayChoice::Turn turn = choice.next();
    for (std::uint32_t k = 1; k < batch; ++k)
      choice.join();
    const std::uint32_t tried = turn.way == LongWay::split ? 0 : std::min(turn.most, batch);
    if (tried > 0) glimpses.push_back(tried);
    choice.took(turn, {.ticks = 1000 * (batch - tried + times * tried),
                       .bytes = message_bytes * batch,
                       .messages = batch,
                       .other_bytes = tried > 0 ? message_bytes * (batch - tried) : 0});
  }
  EXPECT_TRUE(choice.is_settled());
  return glimpses;
}

TEST(WayChoice, LooksWithFewMessagesFirstAndWithMoreWhereThatLeavesItOpen) {
  constexpr std::uint32_t all = WayChoice::most_glimpsed;
  EXPECT_EQ(glimpses_of_a_way_slower_by(3), (std::vector{all / 2, all / 2})) << "it is out";
  EXPECT_EQ(glimpses_of_a_way_slower_by(1.5), (std::vector{all / 2, all})) << "it is out, but that is close";
  EXPECT_EQ(glimpses_of_a_way_slower_by(1.1)[1], 64U) << "it may be as fast";
}

/// Whole batches that go another way in a trial in which a few of a batch show nothing, because they are
/// copied beside the rest.
std::uint32_t whole_batches_of_a_way_slower_by(double times) {
  constexpr std::uint32_t batch = 64;
  constexpr std::array two{LongWay::split, LongWay::pull};
  WayChoice choice(LongWay::split, two);
  std::uint32_t whole = 0;
  for (int i = 0; i < 40 && !choice.is_settled(); ++i) {
    const WayChoice::Turn turn = choice.next();
    for (std::uint32_t k = 1; k < batch; ++k)
      choice.join();
    const bool is_other = turn.way != LongWay::split;
    const std::uint32_t tried = std::min(turn.most, batch);
    whole += is_other && tried == batch ? 1 : 0;
    choice.took(turn, {.ticks = batch * (is_other && tried == batch ? times : 1.0) * 1000,
                       .bytes = message_bytes * batch,
                       .messages = batch,
                       .other_bytes = is_other ? message_bytes * (batch - tried) : 0});
  }
  EXPECT_TRUE(choice.is_settled());
  EXPECT_EQ(choice.way(), LongWay::split);
  return whole;
}

TEST(WayChoice, HasOneWholeBatchGoAWayThatIsPlainlySlow) {
  EXPECT_EQ(whole_batches_of_a_way_slower_by(WayChoice::plainly_slow + 0.2), 1U);
  EXPECT_GT(whole_batches_of_a_way_slower_by(WayChoice::plainly_slow - 0.2), 1U);
}

TEST(WayChoice, NeverTakesAWayThatIsNotPossible) {
  constexpr std::array ways{LongWay::stream, LongWay::pull};
  WayChoice choice(LongWay::pull, ways);
  Sender sender(choice);
  sender.send(20'000, fast_at(LongWay::split));
  EXPECT_EQ(sender.gone[LongWay::split], 0U);
  EXPECT_GT(sender.gone[LongWay::stream], 0U);
}

TEST(WayChoice, KeepsTheWayThatItHasWhereOthersGainLessThanNoise) {
  WayChoice choice(LongWay::pull, all_ways);
  Sender(choice).send(10'000, [](LongWay way) { return way == LongWay::pull ? 10'000.0 : 9'700.0; });
  EXPECT_EQ(choice.way(), LongWay::pull);
}

TEST(WayChoice, LooksAtOtherWaysWithAtMostTwoPerCentOfTheMessages) {
  for (const std::uint32_t batch : {1U, 4U, 64U}) {
    WayChoice choice(LongWay::split, all_ways);
    Sender sender(choice);
    sender.send(batch * 128, fast_at(LongWay::split), batch);
    sender.gone.clear();
    sender.send(100'000, fast_at(LongWay::split), batch);
    EXPECT_GT(sender.other_than(LongWay::split), 0U);
    EXPECT_LE(sender.other_than(LongWay::split), 2000U) << "batches of " << batch;
  }
}

TEST(WayChoice, MovesWithinAHundredMessagesWhenItsWayHasBecomeSlow) {
  WayChoice choice(LongWay::split, all_ways);
  Sender sender(choice);
  sender.send(1000, fast_at(LongWay::split));
  sender.send(
      100, [](LongWay way) { return way == LongWay::split ? 30'000.0 : 15'000.0 - static_cast<int>(way); });
  EXPECT_NE(choice.way(), LongWay::split);
}

TEST(WayChoice, FindsAWayThatHasBecomeFasterThanItsOwn) {
  WayChoice choice(LongWay::split, all_ways);
  Sender sender(choice);
  sender.send(1000, fast_at(LongWay::split));
  sender.send(10'000, [](LongWay way) { return way == LongWay::pull ? 5'000.0 : 10'000.0; });
  EXPECT_EQ(choice.way(), LongWay::pull);
}

TEST(WayChoice, GivesUpAWayThatWaitsForASenderThatComputes) {
  WayChoice choice(LongWay::pull, all_ways);
  Sender sender(choice);
  sender.send(1000, [](LongWay way) { return way == LongWay::pull ? 10'000.0 : 1e9; });
  EXPECT_EQ(choice.way(), LongWay::pull);
  // Three of each other way in the trial, and three in each look.
  EXPECT_LE(sender.other_than(LongWay::pull), 12U);
}

TEST(WayChoice, FallsBackAtOnceWhereTheSenderBeginsToCompute) {
  WayChoice choice(LongWay::split, all_ways);
  Sender sender(choice);
  sender.send(1000, fast_at(LongWay::stream));
  EXPECT_EQ(choice.way(), LongWay::stream);
  sender.gone.clear();
  sender.send(500, [](LongWay way) { return way == LongWay::stream ? 1e9 : 15'000.0; });
  EXPECT_EQ(choice.way(), LongWay::split);
  EXPECT_LE(sender.gone[LongWay::stream], 4U);
}

TEST(WayChoice, LearnsFromBatchesOfAFew) {
  for (std::uint32_t batch = 2; batch <= 20; ++batch) {
    WayChoice choice(LongWay::split, all_ways);
    Sender(choice).send(batch * 80, fast_at(LongWay::stream), batch);
    EXPECT_EQ(choice.way(), LongWay::stream) << "batches of " << batch;
  }
}

TEST(WayChoice, DoesNotGiveUpAWayForOneBatchThatWasDisturbed) {
  WayChoice choice(LongWay::split, all_ways);
  int batches = 0;
  for (int i = 0; i < 30; ++i) {
    const WayChoice::Turn turn = choice.next();
    for (int more = 1; more < 64; ++more)
      choice.join();
    const auto tried = std::min(turn.most, 64U);
    const auto ticks_of = [](LongWay way) { return way == LongWay::stream ? 10'000.0 : 20'000.0; };
    double ticks = ticks_of(turn.way) * tried + ticks_of(choice.way()) * (64 - tried);
    if (turn.way == LongWay::stream && ++batches == 1) ticks *= 10;
    choice.took(turn, {.ticks = ticks,
                       .bytes = 64 * message_bytes,
                       .messages = 64,
                       .other_bytes = (64 - tried) * message_bytes});
  }
  EXPECT_EQ(choice.way(), LongWay::stream);
}

TEST(WayChoice, IsNotMisledByAProcessorThatIsTakenAway) {
  std::mt19937 random(7);
  std::bernoulli_distribution is_taken_away(0.05);
  int right = 0;
  for (int run = 0; run < 100; ++run) {
    WayChoice choice(LongWay::split, all_ways);
    Sender(choice).send(200, [&](LongWay way) {
      return (way == LongWay::stream ? 10'000.0 : 15'000.0) + (is_taken_away(random) ? 1e7 : 0);
    });
    right += choice.way() == LongWay::stream ? 1 : 0;
  }
  EXPECT_GE(right, 95);
}

TEST(WayChoice, DoesNotTryAgainAndAgainWhatDriftsForAllWaysAlike) {
  WayChoice choice(LongWay::split, all_ways);
  Sender sender(choice);
  double load = 1;
  std::uint32_t sent = 0;
  const Machine machine = [&](LongWay way) { return load * (way == LongWay::split ? 10'000.0 : 15'000.0); };
  for (; sent < 100'000; sent += 50) {
    load = sent / 50 % 2 == 0 ? 1 : 2;
    sender.send(50, machine);
  }
  EXPECT_LE(sender.other_than(LongWay::split), 5000U);
}

TEST(WayChoice, SaysWhatItExpectsAndWhatHasComeOfIt) {
  WayChoice choice(LongWay::split, all_ways);
  Sender(choice).send(400, fast_at(LongWay::stream));
  const auto of_message = [](double per_byte) { return per_byte * message_bytes; };
  EXPECT_NEAR(of_message(choice.predicted(LongWay::stream)), 10'000, 1);
  EXPECT_NEAR(of_message(choice.predicted(LongWay::split)), 15'000, 1);
  EXPECT_NEAR(of_message(choice.measured(LongWay::stream)), 10'000, 1);
  EXPECT_EQ(choice.measured(LongWay::split), 0);
  EXPECT_EQ(choice.assumed(), LongWay::split);
  EXPECT_EQ(choice.messages(), 400U);
}

}  // namespace
}  // namespace isthmus::way_choice_test
