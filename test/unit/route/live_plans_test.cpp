#include "route/live_plans.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <vector>

namespace isthmus::live_plans_test {
namespace {

using Nearness = LivePlans::Nearness;
using Words = std::array<std::atomic<std::uint64_t>, wire::lesson_words>;

constexpr std::array all_ways{LongWay::stream, LongWay::pull, LongWay::split};
constexpr std::uint64_t kib = 1024;

/// A clock that moves when a test says so.
std::uint64_t now = 0;
std::uint64_t read_clock() noexcept {
  return now;
}

/// Ticks that a message of so many bytes takes.
using Machine = std::function<std::uint64_t(LongWay, std::uint64_t bytes)>;

Machine fast_at(LongWay fastest, std::uint64_t slower = 2) {
  return [=](LongWay way, std::uint64_t bytes) { return way == fastest ? bytes / 4 : slower * bytes / 4; };
}

/// A receiver: messages come in windows, or in a stream that never breaks off.
class Receiver {
 public:
  explicit Receiver(Machine machine, SharedLessons shared = {})
      : machine(std::move(machine)), plans(true, shared, read_clock) {}

  void begin(std::uint64_t bytes, Nearness nearness = Nearness::near) {
    Message& message = under_way_.emplace_back();
    message.bytes = bytes;
    message.way = plans.begin(message.mark, nearness, bytes, LongWay::split, all_ways);
    ++gone[message.way];
  }
  /// The oldest message is done.
  void end() {
    Message& message = under_way_.front();
    now += machine(message.way, message.bytes);
    plans.ended(message.mark, message.bytes);
    under_way_.pop_front();
  }
  /// Windows of messages of these sizes; in between the receiver waits for the next in vain.
  void windows(int count, const std::vector<std::uint64_t>& sizes) {
    for (int i = 0; i < count; ++i) {
      for (const std::uint64_t bytes : sizes)
        begin(bytes);
      while (!under_way_.empty())
        end();
      plans.quiet();
    }
  }
  void one_at_a_time(int count, std::uint64_t bytes = 64 * kib) { windows(count, {bytes}); }

  /// What has been learned of messages of `from` bytes.
  [[nodiscard]] const LivePlans::Report* lesson(std::uint64_t from, bool many, bool mixed = false) {
    reports_ = plans.report();
    for (const auto& report : reports_)
      if (report.from == from && report.many == many && report.mixed == mixed) return &report;
    return nullptr;
  }
  [[nodiscard]] int other_than(LongWay way) const {
    int sum = 0;
    for (const auto& [each, count] : gone)
      if (each != way) sum += count;
    return sum;
  }

  Machine machine;
  LivePlans plans;
  std::map<LongWay, int> gone;

 private:
  struct Message {
    TransferMark mark;
    std::uint64_t bytes = 0;
    LongWay way{};
  };
  std::deque<Message> under_way_;
  std::vector<LivePlans::Report> reports_;
};

const std::vector<std::uint64_t> sixty_four(64, 64 * kib);

class LivePlansTest : public testing::Test {
 protected:
  void SetUp() override { now = 1'000'000; }
};

TEST_F(LivePlansTest, AreOffAndKnowNothingUnlessAskedFor) {
  const LivePlans plans(false);
  EXPECT_FALSE(plans.on());
  EXPECT_TRUE(plans.report().empty());
}

TEST_F(LivePlansTest, LeaveTenMessagesAsThePlanHasThem) {
  Receiver receiver(fast_at(LongWay::stream));
  receiver.one_at_a_time(10);
  EXPECT_EQ(receiver.other_than(LongWay::split), 0);
}

TEST_F(LivePlansTest, FindTheFastestWayOfMessagesThatComeOneAtATime) {
  for (const LongWay fastest : all_ways) {
    Receiver receiver(fast_at(fastest));
    receiver.one_at_a_time(110);
    const auto* const lesson = receiver.lesson(64 * kib, false);
    ASSERT_TRUE(lesson);
    EXPECT_EQ(lesson->way, fastest);
    EXPECT_FALSE(lesson->told);
  }
}

TEST_F(LivePlansTest, SpendLittleOnAWayThatIsThreeTimesAsSlow) {
  Receiver receiver(fast_at(LongWay::split, 3));
  const std::uint64_t before = now;
  receiver.one_at_a_time(200);
  EXPECT_LE(static_cast<double>(now - before), 1.3 * 200 * 64 * kib / 4);
}

TEST_F(LivePlansTest, SpendLittleOnItWhereSixtyFourAreUnderWay) {
  Receiver receiver(fast_at(LongWay::split, 3));
  const std::uint64_t before = now;
  receiver.windows(4, sixty_four);
  EXPECT_LE(static_cast<double>(now - before), 1.3 * 4 * 64 * 64 * kib / 4);
}

TEST_F(LivePlansTest, FindTheFastestWayOfMessagesThatComeTogether) {
  for (const LongWay fastest : all_ways) {
    Receiver receiver(fast_at(fastest));
    receiver.windows(20, sixty_four);
    const auto* const lesson = receiver.lesson(64 * kib, true);
    ASSERT_TRUE(lesson);
    EXPECT_EQ(lesson->way, fastest);
  }
}

TEST_F(LivePlansTest, KnowOneMessageAtATimeFromMany) {
  Receiver receiver(fast_at(LongWay::stream));
  receiver.one_at_a_time(150);
  receiver.machine = fast_at(LongWay::split);
  receiver.windows(20, sixty_four);
  ASSERT_TRUE(receiver.lesson(64 * kib, false) && receiver.lesson(64 * kib, true));
  EXPECT_EQ(receiver.lesson(64 * kib, false)->way, LongWay::stream);
  EXPECT_EQ(receiver.lesson(64 * kib, true)->way, LongWay::split);
}

TEST_F(LivePlansTest, LearnFromAStreamOfMessagesThatNeverBreaksOff) {
  for (const LongWay fastest : all_ways) {
    Receiver receiver(fast_at(fastest));
    for (int i = 0; i < 8; ++i)
      receiver.begin(64 * kib);
    for (int i = 0; i < 30 * 64; ++i) {
      receiver.begin(64 * kib);
      receiver.end();
    }
    const auto* const lesson = receiver.lesson(64 * kib, true);
    ASSERT_TRUE(lesson);
    EXPECT_EQ(lesson->way, fastest);
    receiver.gone.clear();
    for (int i = 0; i < 200; ++i) {
      receiver.begin(64 * kib);
      receiver.end();
    }
    EXPECT_EQ(receiver.other_than(fastest), 0);
  }
}

TEST_F(LivePlansTest, LearnFromSizesThatAlwaysComeMixed) {
  for (const LongWay fastest : all_ways) {
    Receiver receiver(fast_at(fastest));
    const std::vector<std::uint64_t> mixture{64 * kib, 256 * kib, 64 * kib, 1024 * kib, 32 * kib, 32 * kib};
    receiver.windows(60, mixture);
    const auto* const lesson = receiver.lesson(192 * kib, true, true);
    ASSERT_TRUE(lesson);
    EXPECT_EQ(lesson->way, fastest);
    receiver.gone.clear();
    receiver.windows(20, mixture);
    EXPECT_EQ(receiver.other_than(fastest), 0);
  }
}

TEST_F(LivePlansTest, TakeAMixtureThatHasBecomeOneSizeForOneSize) {
  Receiver receiver(fast_at(LongWay::stream));
  receiver.windows(30, {64 * kib, 256 * kib});
  receiver.one_at_a_time(130, 128 * kib);
  ASSERT_TRUE(receiver.lesson(128 * kib, false));
  EXPECT_EQ(receiver.lesson(128 * kib, false)->way, LongWay::stream);
}

TEST_F(LivePlansTest, LearnNothingWhereRanksOfSeveralSocketsSendTogether) {
  Receiver receiver(fast_at(LongWay::stream));
  for (int i = 0; i < 100; ++i) {
    receiver.begin(64 * kib);
    receiver.begin(64 * kib, Nearness::far);
    receiver.end();
    receiver.end();
    receiver.plans.quiet();
  }
  EXPECT_TRUE(receiver.plans.report().empty());
}

TEST_F(LivePlansTest, MoveWithinAHundredMessagesWhenTheirWayHasBecomeThreeTimesAsSlow) {
  for (const LongWay slowed : all_ways) {
    Receiver receiver(fast_at(slowed));
    receiver.one_at_a_time(300);
    receiver.machine = [=](LongWay way, std::uint64_t bytes) { return (way == slowed ? 3 : 2) * bytes / 4; };
    receiver.one_at_a_time(100);
    receiver.gone.clear();
    receiver.one_at_a_time(20);
    EXPECT_EQ(receiver.gone[slowed], 0);
  }
}

TEST_F(LivePlansTest, DoNotCountTimeInWhichTheRankIsElsewhere) {
  Receiver receiver(
      [](LongWay way, std::uint64_t bytes) { return way == LongWay::pull ? bytes / 4 : bytes / 2; });
  for (int i = 0; i < 150; ++i) {
    receiver.begin(64 * kib);
    receiver.plans.leave();
    now += i % 3 == 0 ? 1'000'000 : 0;
    receiver.plans.come();
    receiver.end();
    receiver.plans.quiet();
  }
  const auto* const lesson = receiver.lesson(64 * kib, false);
  ASSERT_TRUE(lesson);
  EXPECT_EQ(lesson->way, LongWay::pull);
}

TEST_F(LivePlansTest, SurviveAClockThatJumps) {
  std::mt19937 random(11);
  int right = 0;
  for (int run = 0; run < 50; ++run) {
    now = 1'000'000'000'000;
    Receiver receiver([&](LongWay way, std::uint64_t bytes) {
      const std::uint64_t takes = way == LongWay::pull ? bytes / 4 : bytes / 2;
      switch (random() % 20) {
        case 0:
          return takes + 1'000'000'000;  // ahead
        case 1:
          return std::uint64_t{0} - 500'000'000;  // back
        case 2:
          return std::uint64_t{0};  // it stands still
        default:
          return takes;
      }
    });
    receiver.one_at_a_time(200);
    const auto* const lesson = receiver.lesson(64 * kib, false);
    ASSERT_TRUE(lesson);
    right += lesson->way == LongWay::pull ? 1 : 0;
  }
  EXPECT_GE(right, 48);
}

TEST_F(LivePlansTest, NeverTakeAClockThatStandsStillForAFastWay) {
  Receiver receiver([](LongWay way, std::uint64_t bytes) { return way == LongWay::pull ? 0 : bytes / 4; });
  receiver.one_at_a_time(300);
  ASSERT_TRUE(receiver.lesson(64 * kib, false));
  EXPECT_NE(receiver.lesson(64 * kib, false)->way, LongWay::pull);
}

TEST_F(LivePlansTest, TellOtherRanksAndBelieveThemAtFirst) {
  Words words{};
  Receiver(fast_at(LongWay::stream), SharedLessons(words)).one_at_a_time(120);
  Receiver other(fast_at(LongWay::stream), SharedLessons(words));
  other.one_at_a_time(100);
  EXPECT_EQ(other.gone[LongWay::split], 10);
  EXPECT_EQ(other.gone[LongWay::stream], 90);
  ASSERT_TRUE(other.lesson(64 * kib, false));
  EXPECT_TRUE(other.lesson(64 * kib, false)->told);
}

TEST_F(LivePlansTest, FindOutALie) {
  for (const double cost : {1e-6, 0.75, SharedLessons::slowest}) {
    Words words{};
    const SharedLessons shared(words);
    shared.write({.all_ways = true, .size_class = LivePlans::class_of(64 * kib)},
                 {.way = LongWay::stream, .ticks_per_byte = cost});
    Receiver receiver(fast_at(LongWay::pull, 3), shared);
    receiver.one_at_a_time(400);
    ASSERT_TRUE(receiver.lesson(64 * kib, false));
    EXPECT_EQ(receiver.lesson(64 * kib, false)->way, LongWay::pull) << cost;
  }
}

TEST_F(LivePlansTest, LearnNothingFromAMessageThatGoesAnotherWayAfterAll) {
  Receiver receiver(fast_at(LongWay::stream));
  for (int i = 0; i < 300; ++i) {
    TransferMark mark;
    const LongWay way = receiver.plans.begin(mark, Nearness::near, 64 * kib, LongWay::split, all_ways);
    now += way == LongWay::split ? 100'000 : 10;
    if (way == LongWay::split)
      receiver.plans.ended(mark, 64 * kib);
    else
      receiver.plans.given_up(mark);
    receiver.plans.quiet();
  }
  ASSERT_TRUE(receiver.lesson(64 * kib, false));
  EXPECT_EQ(receiver.lesson(64 * kib, false)->way, LongWay::split);
}

TEST_F(LivePlansTest, OfARankThatIsLiedToAtEveryTurnGoOnlyPossibleWaysAndComeToTheFastest) {
  constexpr std::array some_ways{LongWay::stream, LongWay::pull};
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    Words words{};
    LivePlans plans(true, SharedLessons(words), read_clock);
    const std::span possible = seed % 2 == 0 ? std::span<const LongWay>(all_ways) : some_ways;
    const LongWay fastest = possible[seed / 2 % possible.size()];
    const auto is_possible = [&](LongWay way) { return std::ranges::find(possible, way) != possible.end(); };
    int others = 0;
    for (int i = 0; i < 4000; ++i) {
      // Lessons with any cost and any way, one that there is not too; what this rank writes there is
      // overwritten.
      if (i % 64 == 0)
        for (auto& word : words)
          word.store((random() & 0xffff'ffff'0000'0007) | 0x4c65'7300, std::memory_order_relaxed);
      TransferMark mark;
      const std::uint64_t bytes = i % 3 == 0 && i < 1000 ? 1024 * kib : 64 * kib;
      const LongWay way = plans.begin(mark, Nearness::near, bytes, LongWay::pull, possible);
      ASSERT_TRUE(is_possible(way)) << seed;
      if (i >= 2000 && way != fastest) ++others;
      now += bytes / (way == fastest ? 4 : 2);
      plans.ended(mark, bytes);
      plans.quiet();
    }
    EXPECT_LE(others, 100) << seed;
  }
}

TEST_F(LivePlansTest, KeepTheTimeInMpiForWhoAsks) {
  LivePlans plans(false, {}, read_clock);
  plans.attend(1);
  const std::uint64_t began = plans.present();
  now += 100;
  plans.leave();
  now += 1'000'000;
  plans.come();
  now += 10;
  EXPECT_EQ(plans.present() - began, 110U);
  plans.leave();
  now += 1'000'000;
  // Asking is coming back.
  EXPECT_EQ(plans.present() - began, 110U);
}

/// Messages that belong together may come in one call each, and what the program does in between is not their
/// time.
TEST_F(LivePlansTest, KeepTheTimeInMpiForAFewCallsBehindWhatWasAttendedTo) {
  LivePlans plans(false, {}, read_clock);
  const auto call = [&] {
    plans.leave();
    now += 1000;
    plans.come();
    now += 1;
  };
  plans.attend(1);
  const std::uint64_t began = plans.present();
  plans.attend(-1);
  plans.linger();
  for (int i = 0; i < 10; ++i)
    call();
  EXPECT_EQ(plans.present() - began, 10U);
  for (int i = 0; i < 100; ++i)
    call();
  EXPECT_GT(plans.present() - began, 50'000U) << "it is not kept for good: calls would pay for it";
}

TEST_F(LivePlansTest, ForgetMessagesThatNeverEnd) {
  LivePlans plans(true, {}, read_clock);
  std::vector<TransferMark> marks(100);
  for (TransferMark& mark : marks)
    plans.begin(mark, Nearness::near, 64 * kib, LongWay::split, all_ways);
  plans.forget();
  for (TransferMark& mark : marks)
    plans.ended(mark, 64 * kib);
  TransferMark mark;
  plans.begin(mark, Nearness::near, 64 * kib, LongWay::split, all_ways);
  EXPECT_NE(mark.epoch, marks[0].epoch + 1);
  plans.ended(mark, 64 * kib);
  plans.quiet();
}

/// A receiver that shares its core: what a message takes until it is there is the scheduler's doing, what its
/// copies take is not.
class SharedCore {
 public:
  /// `wait`: ticks until a message of that way is there.
  using Wait = std::function<std::uint64_t(LongWay)>;

  SharedCore(Machine work, Wait wait) : work_(std::move(work)), wait_(std::move(wait)) {}

  void windows(int count, int messages, std::uint64_t bytes = 64 * kib) {
    for (int i = 0; i < count; ++i) {
      std::vector<std::pair<TransferMark, LongWay>> window(static_cast<std::size_t>(messages));
      for (auto& [mark, way] : window) {
        way = plans.begin(mark, Nearness::near, bytes, LongWay::split, all_ways);
        ++gone[way];
      }
      for (auto& [mark, way] : window) {
        now += wait_(way);
        // Half of it here, half at the sender.
        const std::uint64_t began = plans.work_begins();
        const std::uint64_t work = work_(way, bytes);
        now += work / 2;
        LivePlans::worked(mark, plans.work_since(began));
        LivePlans::worked(mark, work - work / 2);
        // A split copy to which the sender has not come.
        plans.noticed_sender(false);
        plans.ended(mark, bytes);
      }
      plans.quiet();
    }
  }
  [[nodiscard]] LongWay way() const { return plans.report().at(0).way; }

  LivePlans plans{true, {}, read_clock, LivePlans::Counted::work};
  std::map<LongWay, int> gone;

 private:
  Machine work_;
  Wait wait_;
};

/// Up to 3 ms, whatever the way.
SharedCore::Wait the_schedulers(std::uint32_t seed) {
  return [random = std::mt19937(seed)](LongWay) mutable { return random() % 10'000'000; };
}

TEST_F(LivePlansTest, OfRanksThatShareCoresGoByWorkHoweverLongMessagesTake) {
  for (const int messages : {1, 6, 64})
    for (const LongWay fastest : all_ways)
      for (std::uint32_t seed = 1; seed <= 20; ++seed) {
        SharedCore receiver(fast_at(fastest), the_schedulers(seed));
        receiver.windows(messages == 1 ? 120 : 40, messages);
        ASSERT_EQ(receiver.way(), fastest) << messages << ", " << seed;
        EXPECT_NEAR(receiver.plans.report().at(0).ticks_per_byte, 0.25, 0.001);
      }
}

TEST_F(LivePlansTest, LeaveOutACopyThatWasInterrupted) {
  std::mt19937 random(7);
  SharedCore receiver(
      [&](LongWay way, std::uint64_t bytes) {
        return fast_at(LongWay::stream)(way, bytes) + (random() % 8 == 0 ? 10'000'000 : 0);
      },
      the_schedulers(3));
  receiver.windows(300, 1);
  EXPECT_EQ(receiver.way(), LongWay::stream);
}

TEST_F(LivePlansTest, OfRanksThatShareCoresGiveUpAWayForWhichTheSenderIsTooLate) {
  SharedCore receiver(fast_at(LongWay::stream), [](LongWay way) {
    return way == LongWay::stream ? std::uint64_t{30'000'000} : std::uint64_t{100'000};
  });
  receiver.windows(600, 1);
  EXPECT_EQ(receiver.way(), LongWay::split);
  EXPECT_LE(receiver.gone[LongWay::stream], 12);
}

TEST_F(LivePlansTest, OfRanksThatShareCoresSurviveSendersThatLieAboutTheirWork) {
  SharedCore receiver([](LongWay, std::uint64_t) { return ~std::uint64_t{0}; },
                      [](LongWay) { return std::uint64_t{1000}; });
  receiver.windows(300, 6);
  EXPECT_GT(receiver.plans.report().at(0).ticks_per_byte, 0);
}

TEST_F(LivePlansTest, CountNoWorkWhereTimeCounts) {
  const LivePlans plans(true, {}, read_clock);
  EXPECT_FALSE(plans.by_work());
  EXPECT_EQ(plans.work_begins(), 0);
  EXPECT_EQ(plans.work_since(0), 0);
}

}  // namespace
}  // namespace isthmus::live_plans_test
