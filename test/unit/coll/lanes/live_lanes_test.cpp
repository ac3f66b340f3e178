// All members go the same way in each call that does not block, however far they are ahead of each other.
#include "coll/lanes/live_lanes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <random>

namespace isthmus::coll {
namespace {

using Found = std::optional<TeamWay>;

TEST(LiveLanes, GoAsTheTableHasItUntilAStripeLater) {
  ScheduleWord word{0};
  EXPECT_EQ(LiveLanes::read(word, 5), Found());
  LiveLanes::say(word, TeamWay::messages, 5, 128, 0);
  EXPECT_EQ(LiveLanes::read(word, 132), Found());
  EXPECT_EQ(LiveLanes::read(word, 133), TeamWay::messages);
}

TEST(LiveLanes, SayNothingNewBeforeAllHaveGoneByWhatWasSaidBefore) {
  ScheduleWord word{0};
  LiveLanes::say(word, TeamWay::messages, 5, 4, 1);
  LiveLanes::say(word, TeamWay::direct, 10, 4, 8);
  EXPECT_EQ(LiveLanes::read(word, 20), TeamWay::messages);
  LiveLanes::say(word, TeamWay::direct, 11, 4, 9);
  EXPECT_EQ(LiveLanes::read(word, 14), TeamWay::messages);
  EXPECT_EQ(LiveLanes::read(word, 15), TeamWay::direct);
}

TEST(LiveLanes, OfMembersThatRunAheadNeverDiffer) {
  constexpr std::array ways{TeamWay::flat, TeamWay::direct, TeamWay::messages};
  for (const std::uint64_t depth : {std::uint64_t{4}, std::uint64_t{128}})
    for (std::uint32_t seed = 1; seed <= 50; ++seed) {
      std::mt19937 random(seed);
      ScheduleWord word{0};
      std::array<std::uint64_t, 4> finished{};
      std::map<std::uint64_t, Found> gone;
      std::map<Found, int> counts;
      // 0 is rank 0. Who has begun a step finishes it at once: others may be a stripe behind all the same.
      for (int turn = 0; turn < 20'000; ++turn) {
        const std::uint32_t member = random() % finished.size();
        const std::uint64_t slowest = *std::ranges::min_element(finished);
        const std::uint64_t step = finished[member] + 1;
        if (step > slowest + depth) continue;
        if (member == 0) LiveLanes::say(word, ways[random() % ways.size()], step, depth, slowest);
        const Found way = LiveLanes::read(word, step);
        const auto [first, is_first] = gone.emplace(step, way);
        ASSERT_EQ(first->second, way) << "step " << step << ", seed " << seed;
        counts[way] += is_first ? 1 : 0;
        finished[member] = step;
      }
      EXPECT_EQ(counts.size(), 4U);
    }
}

}  // namespace
}  // namespace isthmus::coll
