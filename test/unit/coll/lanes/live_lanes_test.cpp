// How calls go that do not block, as the word that all members read has it, and what members tell.
#include "coll/lanes/live_lanes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <random>

namespace isthmus::coll::live_lanes_test {
namespace {

using Found = std::optional<TeamWay>;

TEST(LiveLanes, GoAsTheTableHasItUntilSomethingIsSaid) {
  ScheduleWord word{0};
  EXPECT_EQ(LiveLanes::read(word, 5).way, Found());
  word = CallSchedule{.from = 13, .after = TeamWay::messages}.packed();
  EXPECT_EQ(LiveLanes::read(word, 12).way, Found());
  EXPECT_EQ(LiveLanes::read(word, 13).way, TeamWay::messages);
  EXPECT_FALSE(LiveLanes::read(word, 13).index);
}

TEST(LiveLanes, HaveTurnsByTheNumbersOfCalls) {
  const auto tried = TeamWays().add(TeamWay::direct).add(TeamWay::messages);
  const ScheduleWord word{CallSchedule{.from = 100,
                                       .before = TeamWay::direct,
                                       .after = TeamWay::flat,
                                       .turn = 4,
                                       .tried = tried,
                                       .settling = 2}
                              .packed()};
  for (std::uint32_t number = 90; number < 120; ++number) {
    const auto [way, index] = LiveLanes::read(word, number);
    EXPECT_EQ(index.has_value(), number >= 100 && number < 110) << number;
    EXPECT_EQ(way, number < 104   ? TeamWay::direct
                   : number < 110 ? TeamWay::messages
                                  : TeamWay::flat)
        << number;
  }
}

/// Rank 0 learns, others run ahead of it and fall behind, by up to as many calls as that takes effect later.
TEST(LiveLanes, OfMembersThatRunAheadNeverDiffer) {
  for (const std::uint32_t lead : {4U, 8U})
    for (std::uint32_t seed = 1; seed <= 50; ++seed) {
      std::mt19937 random(seed);
      ScheduleWord word{0};
      const auto possible =
          TeamWays().add(TeamWay::flat).add(TeamWay::direct).add(TeamWay::direct_both).add(TeamWay::messages);
      CallChoice choice(TeamWay::direct, possible, lead, {}, 0, {.calls = 5});
      std::array<std::uint32_t, 4> finished{};
      std::map<std::uint32_t, TeamWay> gone;
      std::map<TeamWay, int> counts;
      // Who has begun a call finishes it at once: others may be `lead` behind all the same.
      for (int turn = 0; turn < 20'000; ++turn) {
        const std::uint32_t member = random() % finished.size();
        const std::uint32_t number = finished[member] + 1;
        if (number > *std::ranges::min_element(finished) + lead) continue;
        if (member == 0) {
          if (const auto said = choice.next(number)) word = said->packed();
          const auto [way, index] = LiveLanes::read(word, number);
          choice.took(way.value_or(TeamWay::direct), index, 1 + static_cast<double>(random() % 100));
        }
        // Before anything is said, as the table has it.
        const TeamWay way = LiveLanes::read(word, number).way.value_or(TeamWay::direct);
        const auto [first, is_first] = gone.emplace(number, way);
        ASSERT_EQ(first->second, way) << "call " << number << ", seed " << seed;
        counts[way] += is_first ? 1 : 0;
        finished[member] = number;
      }
      EXPECT_EQ(counts.size(), 4U) << "not all ways have had a turn";
    }
}

TEST(LiveLanes, ATimeIsOfOneCall) {
  CallTime time{};
  constexpr std::uint64_t number = 0x1'8000'0003;
  LiveLanes::write_time(time, number, {.began = 1000, .ended = 1500, .teaches = true});
  ASSERT_TRUE(LiveLanes::read_time(time, number));
  EXPECT_EQ(LiveLanes::read_time(time, number)->began, 1000U);
  EXPECT_EQ(LiveLanes::read_time(time, number)->ended, 1500U);
  EXPECT_TRUE(LiveLanes::read_time(time, number)->teaches);
  EXPECT_FALSE(LiveLanes::read_time(time, number)->is_learning);
  EXPECT_FALSE(LiveLanes::read_time(time, number + 1));
  EXPECT_FALSE(LiveLanes::read_time(time, number - 32));
  // A clock that jumps back, one that jumps far, and a call that teaches nothing.
  LiveLanes::write_time(time, number, {.began = 1500, .ended = 1000, .teaches = true, .is_learning = true});
  EXPECT_TRUE(LiveLanes::read_time(time, number)->is_learning);
  EXPECT_EQ(LiveLanes::read_time(time, number)->ended, 1500U);
  LiveLanes::write_time(time, number, {.began = 1000, .ended = ~std::uint64_t{0}});
  ASSERT_TRUE(LiveLanes::read_time(time, number));
  EXPECT_EQ(LiveLanes::read_time(time, number)->ended, std::uint64_t{1000} + 0xffff'ffffU);
  EXPECT_FALSE(LiveLanes::read_time(time, number)->teaches);
}

}  // namespace
}  // namespace isthmus::coll::live_lanes_test
