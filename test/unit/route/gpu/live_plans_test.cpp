#include "route/gpu/live_plans.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace isthmus::live_gpu_plans_test {
namespace {

std::uint64_t now = 1;
std::uint64_t read_clock() noexcept {
  return now;
}

constexpr std::uint64_t mib = 1024 * 1024;

GpuWays ways_of(GpuWay assumed, std::initializer_list<GpuWay> all) {
  GpuWays ways{.assumed = assumed};
  for (const GpuWay way : all)
    ways.add(way);
  return ways;
}

const GpuWays over_nvlink = ways_of(GpuWay::push, {GpuWay::push, GpuWay::pull});

/// A receiver, and what each way takes it, in ticks a byte.
struct Receiver {
  explicit Receiver(SharedGpuLessons shared = {}, bool on = true) : plans(on, clock, shared) {}

  /// One message after the other; how many went each way.
  std::map<GpuWay, int> receive(int messages, std::uint64_t bytes = mib, GpuWays ways = over_nvlink) {
    std::map<GpuWay, int> gone;
    for (int i = 0; i < messages; ++i) {
      GpuTransferMark mark;
      const GpuWay way = plans.begin(mark, GpuRoute::nvlink, false, bytes, ways);
      EXPECT_TRUE(ways.has(way));
      ++gone[way];
      now += static_cast<std::uint64_t>(cost[way] * static_cast<double>(bytes));
      plans.ended(mark, bytes);
    }
    return gone;
  }
  /// So many under way at a time, each over when those before it are.
  std::map<GpuWay, int> receive_together(int windows, int window) {
    std::map<GpuWay, int> gone;
    for (int i = 0; i < windows; ++i) {
      std::vector<GpuTransferMark> marks(static_cast<std::size_t>(window));
      std::vector<GpuWay> taken;
      for (GpuTransferMark& mark : marks)
        taken.push_back(plans.begin(mark, GpuRoute::nvlink, false, mib, over_nvlink));
      for (std::size_t k = 0; k < marks.size(); ++k) {
        ++gone[taken[k]];
        now += static_cast<std::uint64_t>(cost[taken[k]] * static_cast<double>(mib));
        plans.ended(marks[k], mib);
      }
    }
    return gone;
  }
  [[nodiscard]] std::optional<LiveGpuPlans::Report> lesson() const {
    const auto all = plans.report();
    return all.empty() ? std::nullopt : std::optional(all.front());
  }

  LivePlans clock{false, {}, &read_clock};
  std::map<GpuWay, double> cost{{GpuWay::courier, 1}, {GpuWay::push, 1},   {GpuWay::pull, 1},
                                {GpuWay::bounce, 1},  {GpuWay::staged, 1}, {GpuWay::staged_finely, 1}};
  LiveGpuPlans plans;
};

TEST(LiveGpuPlans, LeaveAJobOfTenMessagesAsItIs) {
  Receiver receiver;
  receiver.cost[GpuWay::push] = 3;
  EXPECT_EQ(receiver.receive(10)[GpuWay::push], 10);
  EXPECT_FALSE(receiver.lesson());
}

TEST(LiveGpuPlans, MoveWithinAHundredMessagesWhereTheAssumedWayIsSlow) {
  Receiver receiver;
  receiver.cost[GpuWay::push] = 3;
  receiver.receive(100);
  ASSERT_TRUE(receiver.lesson());
  EXPECT_EQ(receiver.lesson()->way, GpuWay::pull);
  EXPECT_EQ(receiver.lesson()->assumed, GpuWay::push);
  EXPECT_EQ(receiver.receive(100)[GpuWay::push], 0);
}

TEST(LiveGpuPlans, MoveWithinAHundredMessagesWhereTheChosenWayBecomesSlow) {
  Receiver receiver;
  receiver.receive(300);
  ASSERT_EQ(receiver.lesson()->way, GpuWay::push);
  receiver.cost[GpuWay::push] = 3;
  receiver.receive(100);
  EXPECT_EQ(receiver.lesson()->way, GpuWay::pull);
}

TEST(LiveGpuPlans, TryOtherWaysWithTwoOfAHundredMessagesAtMost) {
  Receiver receiver;
  receiver.receive(100);
  EXPECT_LE(receiver.receive(10'000)[GpuWay::pull], 200);
}

TEST(LiveGpuPlans, MeasureMessagesThatAreUnderWayTogetherAsOneBatch) {
  Receiver receiver;
  receiver.cost[GpuWay::push] = 3;
  receiver.receive_together(20, 64);
  EXPECT_EQ(receiver.receive_together(2, 64)[GpuWay::pull], 128);
  ASSERT_TRUE(receiver.lesson());
  EXPECT_TRUE(receiver.lesson()->many);
}

/// A stream of messages that never breaks off: the next begins before the last has ended.
TEST(LiveGpuPlans, LearnFromAStreamThatNeverBreaksOff) {
  Receiver receiver;
  receiver.cost[GpuWay::push] = 3;
  struct Message {
    GpuTransferMark mark;
    GpuWay way;
  };
  std::vector<Message> under_way;
  std::map<GpuWay, int> gone;
  for (int i = 0; i < 5000; ++i) {
    Message message{};
    message.way = receiver.plans.begin(message.mark, GpuRoute::nvlink, false, mib, over_nvlink);
    if (i >= 4500) ++gone[message.way];
    under_way.push_back(message);
    if (under_way.size() < 8) continue;
    now += static_cast<std::uint64_t>(receiver.cost[under_way.front().way] * static_cast<double>(mib));
    receiver.plans.ended(under_way.front().mark, mib);
    under_way.erase(under_way.begin());
  }
  EXPECT_GT(gone[GpuWay::pull], 450);
}

TEST(LiveGpuPlans, LearnNothingOfMessagesThatCameAmongOthers) {
  Receiver receiver;
  receiver.cost[GpuWay::push] = 3;
  for (int i = 0; i < 300; ++i) {
    GpuTransferMark one;
    GpuTransferMark other;
    static_cast<void>(receiver.plans.begin(one, GpuRoute::nvlink, false, mib, over_nvlink));
    static_cast<void>(receiver.plans.begin(other, GpuRoute::pcie, false, 64, over_nvlink));
    now += mib;
    receiver.plans.ended(one, mib);
    receiver.plans.ended(other, 64);
  }
  for (const auto& lesson : receiver.plans.report())
    EXPECT_EQ(lesson.ticks_per_byte, 0);
}

TEST(LiveGpuPlans, GoOnWhereSomeMessagesNeverEnd) {
  Receiver receiver;
  receiver.cost[GpuWay::push] = 3;
  GpuTransferMark lost;
  static_cast<void>(receiver.plans.begin(lost, GpuRoute::nvlink, false, mib, over_nvlink));
  receiver.receive(300);
  ASSERT_TRUE(receiver.lesson());
  EXPECT_EQ(receiver.lesson()->way, GpuWay::pull);
  receiver.plans.ended(lost, mib);
  EXPECT_EQ(lost.epoch, 0U);
}

TEST(LiveGpuPlans, TakeNoWayThatIsClosedMeanwhile) {
  Receiver receiver;
  receiver.cost[GpuWay::push] = 3;
  receiver.receive(300);
  ASSERT_EQ(receiver.lesson()->way, GpuWay::pull);
  const GpuWays without = ways_of(GpuWay::push, {GpuWay::push, GpuWay::bounce});
  EXPECT_EQ(receiver.receive(300, mib, without)[GpuWay::pull], 0);
}

TEST(LiveGpuPlans, LearnNothingOfMessagesThatHaveGoneAnotherWay) {
  Receiver receiver;
  receiver.cost[GpuWay::push] = 3;
  for (int i = 0; i < 300; ++i) {
    GpuTransferMark mark;
    const GpuWay way = receiver.plans.begin(mark, GpuRoute::nvlink, false, mib, over_nvlink);
    if (way == GpuWay::pull) receiver.plans.given_up(mark);
    now += 3 * mib;
    receiver.plans.ended(mark, mib);
  }
  EXPECT_EQ(receiver.lesson()->way, GpuWay::push);
}

class SharedGpu : public testing::Test {
 protected:
  std::vector<std::atomic<std::uint64_t>> words =
      std::vector<std::atomic<std::uint64_t>>(wire::gpu_lesson_words);
  SharedGpuLessons lessons{words};
};

TEST_F(SharedGpu, OthersBeginWithWhatHasBeenLearned) {
  Receiver first(lessons);
  first.cost[GpuWay::push] = 3;
  first.receive(300);
  Receiver second(lessons);
  second.receive(10);
  EXPECT_EQ(second.receive(5)[GpuWay::pull], 5);
  EXPECT_TRUE(second.lesson()->told);
}

TEST_F(SharedGpu, ATableIsWhatNobodyHasLearnedYet) {
  Receiver receiver(lessons);
  const std::array taught{TaughtGpu{.from = mib,
                                    .route = static_cast<std::uint8_t>(GpuRoute::nvlink),
                                    .way = static_cast<std::uint8_t>(GpuWay::pull),
                                    .ticks_per_byte = 1},
                          TaughtGpu{.from = 0, .ticks_per_byte = 1},
                          TaughtGpu{.from = mib, .route = 200, .ticks_per_byte = 1},
                          TaughtGpu{.from = UINT64_MAX, .ticks_per_byte = 1},
                          TaughtGpu{.from = mib, .way = 200, .ticks_per_byte = 1}};
  receiver.plans.take(taught);
  receiver.receive(10);
  EXPECT_EQ(receiver.receive(1)[GpuWay::pull], 1);
  EXPECT_TRUE(receiver.lesson()->tuned);
}

/// Whatever anybody writes there, a message goes one of its ways.
TEST_F(SharedGpu, LessonsThatLieCostTimeAndNothingElse) {
  for (const std::uint64_t lie :
       {std::uint64_t{0x3f80'0000'4c65'7303}, UINT64_MAX, std::uint64_t{0x3f80'0000'4c65'7307},
        std::uint64_t{0x7fc0'0000'4c65'7303}, std::uint64_t{0x3f80'0000'4c65'7301}}) {
    for (auto& word : words)
      word = lie;
    Receiver receiver(lessons);
    receiver.cost[GpuWay::pull] = 3;
    receiver.receive(1000);
    EXPECT_EQ(receiver.lesson()->way, GpuWay::push) << lie;
  }
}

TEST_F(SharedGpu, EachKindHasAWordOfItsOwn) {
  std::size_t kinds = 0;
  for (std::size_t route = 0; route < gpu_route_count; ++route)
    for (const bool has_gaps : {false, true})
      for (const bool many : {false, true})
        for (std::size_t number = 0; number < SharedGpuLessons::size_classes; ++number) {
          const GpuMessageKind kind{.route = static_cast<GpuRoute>(route),
                                    .has_gaps = has_gaps,
                                    .size_class = static_cast<std::uint8_t>(number)};
          EXPECT_FALSE(lessons.read(kind, many));
          lessons.write(kind, many, {.way = GpuWay::pull, .ticks_per_byte = 1});
          EXPECT_TRUE(lessons.read(kind, many));
          ++kinds;
        }
  EXPECT_EQ(kinds, words.size());
  EXPECT_FALSE(lessons.read({.route = GpuRoute::nvlink, .size_class = 64}, false));
}

}  // namespace
}  // namespace isthmus::live_gpu_plans_test
