#include "route/eager_plans.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace isthmus::eager_plans_test {
namespace {

constexpr std::uint64_t kib = 1024;
using Words = std::array<std::atomic<std::uint64_t>, wire::eager_lesson_words>;

/// A clock that moves when a test says so.
std::uint64_t now = 0;
std::uint64_t read_clock() noexcept {
  return now;
}

/// Ticks that a message of so many bytes takes its sender to write, and its receiver.
struct Taken {
  std::uint64_t sender = 0, receiver = 0;
};
using Machine = std::function<Taken(bool is_eager, std::uint64_t bytes)>;

Machine fast(bool eager, std::uint64_t times = 4) {
  return [=](bool is_eager, std::uint64_t bytes) {
    const std::uint64_t slow = is_eager == eager ? 1 : times;
    return is_eager ? Taken{.sender = slow * bytes / 8, .receiver = slow * bytes / 8}
                    : Taken{.sender = 10, .receiver = slow * bytes / 4};
  };
}

/// A rank that sends to others, which tell what they have received.
class Sender {
 public:
  explicit Sender(Machine machine, bool assumed_eager, SharedEagerLessons shared = {},
                  std::uint64_t longest = EagerPlans::up_to)
      : plans(true, longest, shared, read_clock), machine(std::move(machine)), assumed_eager(assumed_eager) {}

  /// `window` messages, and then all of them are there.
  void windows(int count, std::uint64_t bytes, std::uint32_t window = 1, std::uint32_t to = 1) {
    for (int i = 0; i < count; ++i) {
      std::vector<std::uint16_t> marks;
      std::uint64_t receiver = 0;
      for (std::uint32_t k = 0; k < window; ++k) {
        const auto fate = ask(bytes, to);
        (fate.is_eager ? eager : rendezvous)++;
        const Taken taken = machine(fate.is_eager, bytes);
        const std::uint64_t began = plans.write_begins(fate.mark);
        now += taken.sender;
        plans.wrote(fate.mark, began, 1);
        if (fate.mark == 0) continue;
        ++marked;
        marks.push_back(fate.mark);
        receiver += taken.receiver;
      }
      now += 1000 + bytes / 4;
      if (!tells) continue;
      for (const std::uint16_t mark : marks) {
        if (report[to].mark != mark) report[to] = {.mark = mark};
        report[to].ticks += static_cast<std::uint32_t>(receiver / marks.size());
        ++report[to].count;
      }
    }
  }
  EagerPlans::Fate ask(std::uint64_t bytes, std::uint32_t to) {
    if (!plans.decides(bytes, start, assumed_eager)) return {.is_eager = assumed_eager};
    if (const auto is_eager = plans.goes_on(to, bytes, start)) {
      ++unasked;
      return {.is_eager = *is_eager};
    }
    return plans.begin({.to = to,
                        .bytes = bytes,
                        .start = start,
                        .assumed_eager = assumed_eager,
                        .report = plans.awaits(to) ? report[to].packed() : 0});
  }
  [[nodiscard]] std::optional<EagerPlans::Report> lesson(std::uint64_t from, bool several = false) const {
    for (const auto& each : plans.report(1))
      if (each.from == from && each.start == start && each.several == several) return each;
    return std::nullopt;
  }

  EagerPlans plans;
  Machine machine;
  bool assumed_eager;
  bool tells = true;
  Start start = Start::nonblocking;
  std::array<wire::BatchReport, 8> report{};
  int eager = 0, rendezvous = 0, marked = 0, unasked = 0;
};

TEST(EagerPlans, DecideBetweenFourAnd128KiBWhereTheyAreOn) {
  const EagerPlans plans(true);
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, 1 * kib, 4 * kib - 1, 128 * kib + 1, std::numeric_limits<std::uint64_t>::max()})
    EXPECT_FALSE(plans.covers(bytes)) << bytes;
  for (const std::uint64_t bytes : {4 * kib, 16 * kib, 128 * kib})
    EXPECT_TRUE(plans.covers(bytes)) << bytes;
  EXPECT_FALSE(EagerPlans(false).covers(16 * kib));
  const EagerPlans small(true, 24 * kib);
  EXPECT_TRUE(small.covers(24 * kib));
  EXPECT_FALSE(small.covers(24 * kib + 1)) << "a ring carries no more";
  EXPECT_FALSE(EagerPlans(true, 2 * kib).covers(4 * kib));
}

TEST(EagerPlans, LeaveTenMessagesAsThePlanHasThem) {
  for (const bool assumed : {false, true}) {
    Sender sender(fast(!assumed), assumed);
    sender.windows(10, 32 * kib);
    EXPECT_EQ(assumed ? sender.rendezvous : sender.eager, 0);
    EXPECT_EQ(sender.marked, 0);
  }
}

TEST(EagerPlans, LeaveWindowsOfShortMessagesAsThePlanHasThemForLonger) {
  Sender sender(fast(false), true);
  sender.windows(3, 4 * kib, 64);
  EXPECT_EQ(sender.rendezvous, 0) << "a trial takes as long as all of these";
  sender.windows(20, 4 * kib, 64);
  ASSERT_TRUE(sender.lesson(4 * kib, true));
  EXPECT_EQ(sender.lesson(4 * kib, true)->way, EagerWay::rendezvous);
  EXPECT_FALSE(sender.lesson(4 * kib)) << "they never came one at a time";
}

/// The receiver has to fetch back what a sender has looked at.
TEST(EagerPlans, LookAtWhatIsToldOnlyWhenTheBatchMayBeOver) {
  EagerPlans plans(true, EagerPlans::up_to, {}, read_clock);
  constexpr std::uint64_t write_takes = 400;
  std::uint64_t report = 0;
  std::uint16_t last = 0;
  std::uint32_t messages = 0, looks = 0, marked = 0;
  bool is_under_way = false;
  for (int window = 0; window < 40; ++window) {
    for (int i = 0; i < 64; ++i) {
      const bool is_looked_at = plans.awaits(1);
      looks += is_looked_at ? 1 : 0;
      if (i == 0) {
        EXPECT_EQ(is_looked_at, is_under_way) << "nothing has been sent for a while; window " << window;
        is_under_way = false;
      }
      if (plans.goes_on(1, 4 * kib, Start::nonblocking)) continue;
      const auto fate = plans.begin(
          {.to = 1, .bytes = 4 * kib, .start = Start::nonblocking, .report = is_looked_at ? report : 0});
      now += 50;
      if (fate.mark == 0) continue;
      if (std::exchange(last, fate.mark) != fate.mark) messages = 0;
      ++messages;
      ++marked;
      is_under_way = true;
      const std::uint64_t began = plans.write_begins(fate.mark);
      now += write_takes;
      plans.wrote(fate.mark, began, 1);
    }
    now += 2 * write_takes;
    report =
        wire::BatchReport{.mark = last, .count = static_cast<std::uint16_t>(messages), .ticks = 64 * 1000}
            .packed();
  }
  EXPECT_GT(marked, 300U);
  EXPECT_LT(looks, marked / 4);
}

/// The end of a window in which nothing was measured before looks like a short one.
TEST(EagerPlans, TakeNoEndOfAWindowForAWindow) {
  Sender sender(fast(true), true);
  sender.windows(400, 16 * kib, 64);
  ASSERT_TRUE(sender.lesson(16 * kib, true));
  sender.windows(400, 16 * kib, 66);
  EXPECT_FALSE(sender.lesson(16 * kib)) << "of messages that come one at a time nothing is known";
}

TEST(EagerPlans, CountTheMessagesThatWentBeforeTheirPlanHadSettled) {
  Sender sender(fast(true), false);
  sender.windows(1000, 64 * kib);
  EXPECT_GT(sender.plans.unsettled(), EagerChoice::patience);
  EXPECT_LT(sender.plans.unsettled(), EagerPlans::patience_of_rendezvous)
      << "it is faster than any rendezvous";
  const std::uint64_t learned = sender.plans.unsettled();
  sender.windows(10, 64 * kib);
  EXPECT_EQ(sender.plans.unsettled(), learned);
  sender.windows(10, 32 * kib);
  EXPECT_EQ(sender.plans.unsettled(), learned + 10) << "another class";
}

/// A message with its envelope costs 8. One by rendezvous costs 20, 14 and `third`, as its receiver tries its
/// ways in turn, and 14 behind that.
struct Trying {
  double third = 0;
  int rendezvous = 0;

  Taken operator()(bool is_eager, std::uint64_t bytes) {
    if (is_eager) return {.sender = bytes / 2, .receiver = bytes / 2};
    const int turn = ++rendezvous;
    const double cost = turn <= 10 || turn > 100 ? 14
                        : turn / 5 % 3 == 0      ? 20
                        : turn / 5 % 3 == 1      ? 14
                                                 : third;
    return {.sender = 0, .receiver = static_cast<std::uint64_t>(cost * static_cast<double>(bytes) / 8)};
  }
};

TEST(EagerPlans, DoNotWaitForReceiversWhereNoneOfTheirWaysIsNear) {
  Sender sender(Trying{.third = 12}, false);
  sender.windows(100, 32 * kib);
  ASSERT_TRUE(sender.lesson(32 * kib));
  EXPECT_EQ(sender.lesson(32 * kib)->way, EagerWay::eager);
  EXPECT_LT(sender.rendezvous, 60);
}

/// One of their ways is as fast: which one they take has to be seen.
TEST(EagerPlans, WaitForReceiversOfWhoseWaysOneIsAsFast) {
  Sender sender(Trying{.third = 8}, false);
  sender.windows(EagerPlans::patience_of_rendezvous, 32 * kib);
  EXPECT_FALSE(sender.lesson(32 * kib)) << "what the early trial found counts for nothing";
  const int early = sender.eager;
  EXPECT_GT(early, 0);
  sender.windows(500, 32 * kib);
  ASSERT_TRUE(sender.lesson(32 * kib));
  EXPECT_EQ(sender.lesson(32 * kib)->way, EagerWay::eager) << "of the others they took the slower one";
  EXPECT_GT(sender.eager, early + 300);
}

TEST(EagerPlans, FindTheFasterWayOneAtATimeAndInWindows) {
  for (const bool faster : {false, true})
    for (const bool assumed : {false, true})
      for (const std::uint32_t window : {1U, 2U, 8U, 64U}) {
        Sender sender(fast(faster), assumed);
        sender.windows(static_cast<int>(std::max(1000 / window, 30U)), 32 * kib, window);
        const auto lesson = sender.lesson(32 * kib, window > 2);
        ASSERT_TRUE(lesson) << window;
        EXPECT_EQ(lesson->way, faster ? EagerWay::eager : EagerWay::rendezvous) << assumed << window;
        EXPECT_FALSE(sender.lesson(32 * kib, window <= 2)) << window;
        EXPECT_EQ(lesson->assumed, assumed ? EagerWay::eager : EagerWay::rendezvous);
        EXPECT_FALSE(lesson->told);
      }
}

/// A slowed ring: what goes with the envelope at first moves within a hundred messages.
TEST(EagerPlans, MoveWithinAHundredMessages) {
  Sender sender(fast(false), true);
  sender.windows(100, 16 * kib);
  const int before = sender.eager;
  sender.windows(300, 16 * kib);
  EXPECT_LE(sender.eager - before, 6);
}

TEST(EagerPlans, MoveWhereTheChosenWayBecomesSlow) {
  for (const std::uint32_t window : {1U, 16U}) {
    const bool several = window > 1;
    Sender sender(fast(true), true);
    sender.windows(several ? 60 : 500, 16 * kib, window);
    ASSERT_TRUE(sender.lesson(16 * kib, several));
    EXPECT_EQ(sender.lesson(16 * kib, several)->way, EagerWay::eager);
    sender.machine = fast(false, 4);
    sender.windows(several ? 60 : 400, 16 * kib, window);
    EXPECT_EQ(sender.lesson(16 * kib, several)->way, EagerWay::rendezvous) << window;
  }
}

/// A batch that begins in the midst of a window, or near its end, says nothing else than one of a whole
/// window.
TEST(EagerPlans, FindNoDriftWhereWindowsAreMeasuredInPart) {
  for (const std::uint32_t window : {4U, 5U, 8U, 12U, 16U, 30U, 64U, 200U}) {
    Sender sender(fast(true), true);
    sender.windows(static_cast<int>(4000 / window), 16 * kib, window);
    const int before = sender.rendezvous;
    sender.windows(static_cast<int>(40'000 / window), 16 * kib, window);
    EXPECT_LE(sender.rendezvous - before, 800) << window;
    const auto lesson = sender.lesson(16 * kib, true);
    ASSERT_TRUE(lesson) << window;
    EXPECT_NEAR(lesson->times[0].measured, lesson->times[0].predicted, 0.1 * lesson->times[0].predicted)
        << window;
  }
}

/// One at a time, a message costs what both sides take one after the other; of several, the slower side
/// counts.
TEST(EagerPlans, HavePlansOfTheirOwnForOneAtATimeAndForSeveral) {
  const Machine machine = [](bool is_eager, std::uint64_t bytes) {
    return is_eager ? Taken{.sender = bytes / 2, .receiver = bytes / 2} : Taken{.receiver = bytes * 3 / 4};
  };
  for (const bool assumed : {false, true}) {
    Sender sender(machine, assumed);
    for (int i = 0; i < 20; ++i) {
      sender.windows(20, 16 * kib, 16);
      sender.windows(40, 16 * kib);
    }
    ASSERT_TRUE(sender.lesson(16 * kib, true));
    EXPECT_EQ(sender.lesson(16 * kib, true)->way, EagerWay::eager);
    ASSERT_TRUE(sender.lesson(16 * kib));
    EXPECT_EQ(sender.lesson(16 * kib)->way, EagerWay::rendezvous);
  }
}

/// What has been told of several is of several.
TEST(EagerPlans, TellOthersOfSeveralApart) {
  Words words{};
  const SharedEagerLessons shared(words);
  Sender first(fast(false), true, shared);
  first.windows(60, 16 * kib, 16);
  ASSERT_TRUE(first.lesson(16 * kib, true));
  EXPECT_EQ(first.lesson(16 * kib, true)->way, EagerWay::rendezvous);
  Sender second(fast(false), true, shared);
  second.windows(12, 16 * kib, 16);
  ASSERT_TRUE(second.lesson(16 * kib, true));
  EXPECT_TRUE(second.lesson(16 * kib, true)->told);
  EXPECT_FALSE(second.lesson(16 * kib)) << "of those that come one at a time nobody knows anything";
}

/// Programs rely on it that MPI_Send of a few KiB returns without its receive.
TEST(EagerPlans, NeverHaveABlockingSendWaitThatIsAssumedNotTo) {
  Sender sender(fast(false, 8), true);
  sender.start = Start::blocking;
  sender.windows(2000, 16 * kib);
  EXPECT_EQ(sender.rendezvous, 0);
  EXPECT_EQ(sender.marked, 0);
  Sender longer(fast(true), false);
  longer.start = Start::blocking;
  longer.windows(300, 64 * kib);
  ASSERT_TRUE(longer.lesson(64 * kib));
  EXPECT_EQ(longer.lesson(64 * kib)->way, EagerWay::eager) << "the other way round nothing waits";
}

TEST(EagerPlans, TryTheOtherWayWithTwoPerCentOfTheMessages) {
  Sender sender(fast(true), true);
  sender.windows(200, 16 * kib);
  const int before = sender.rendezvous;
  const int marked_before = sender.marked;
  sender.windows(20'000, 16 * kib);
  EXPECT_LE(sender.rendezvous - before, 400);
  EXPECT_GT(sender.rendezvous - before, 0);
  EXPECT_LE(sender.marked - marked_before, 20'000 / EagerPlans::unmeasured_for_each + 400);
}

TEST(EagerPlans, AreNotAskedAboutMessagesAsTheOneBeforeWhereNothingIsMeasured) {
  for (const bool assumed : {false, true}) {
    Sender sender(fast(true), assumed);
    EXPECT_FALSE(sender.plans.goes_on(1, 16 * kib, sender.start));
    sender.windows(100, 16 * kib, 64);
    const int rendezvous = sender.rendezvous;
    sender.unasked = 0;
    sender.windows(20, 16 * kib, 64);
    EXPECT_GT(sender.unasked, 20 * 64 * 8 / 10) << assumed;
    EXPECT_LE(sender.rendezvous - rendezvous, 64) << "they go the way that was found";
  }
  Sender sender(fast(true), true);
  sender.windows(100, 16 * kib, 64);
  while (sender.plans.goes_on(1, 16 * kib, sender.start)) {
  }
  while (!sender.plans.goes_on(1, 16 * kib, sender.start))
    sender.windows(1, 16 * kib);
  EXPECT_FALSE(sender.plans.goes_on(2, 16 * kib, sender.start)) << "another peer";
  EXPECT_FALSE(sender.plans.goes_on(1, 16 * kib + 1, sender.start)) << "other bytes";
  EXPECT_FALSE(sender.plans.goes_on(1, 16 * kib, Start::blocking)) << "another kind of send";
  EXPECT_TRUE(sender.plans.goes_on(1, 16 * kib, sender.start));
}

TEST(EagerPlans, BeginWithWhatAnotherRankHasLearned) {
  Words words{};
  const SharedEagerLessons shared(words);
  Sender first(fast(true), false, shared);
  first.windows(400, 64 * kib);
  ASSERT_EQ(first.lesson(64 * kib)->way, EagerWay::eager);
  Sender second(fast(true), false, shared);
  second.windows(40, 64 * kib);
  ASSERT_TRUE(second.lesson(64 * kib));
  EXPECT_TRUE(second.lesson(64 * kib)->told);
  EXPECT_EQ(second.eager, 30);
}

TEST(EagerPlans, MeasureOnWhereAnotherRankHasLied) {
  Words words{};
  const SharedEagerLessons shared(words);
  shared.write(
      {.far = false, .nonblocking = true, .several = false, .size_class = LivePlans::class_of(64 * kib) - 24},
      {.way = EagerWay::eager, .ticks_per_byte = 1e-6});
  Sender sender(fast(false, 3), false, shared);
  sender.windows(1000, 64 * kib);
  EXPECT_EQ(sender.lesson(64 * kib)->way, EagerWay::rendezvous);
}

TEST(EagerPlans, GiveUpMeasuringWhereReceiversTellNothing) {
  Sender sender(fast(false), true);
  sender.tells = false;
  sender.windows(20'000, 16 * kib);
  EXPECT_LE(sender.rendezvous, 300) << "the way of a batch of which nothing is heard ends with it";
  EXPECT_FALSE(sender.plans.covers(16 * kib));
}

TEST(EagerPlans, OfPeersOfWhichOneTellsNothingTheOthersTeach) {
  Sender sender(fast(false), true);
  for (int i = 0; i < 400; ++i) {
    sender.tells = i != 200;
    sender.windows(1, 16 * kib, 1, 1 + static_cast<std::uint32_t>(i % 3));
  }
  ASSERT_TRUE(sender.lesson(16 * kib));
  EXPECT_EQ(sender.lesson(16 * kib)->way, EagerWay::rendezvous);
}

/// Anything may stand in the word, and the clock may jump: what follows is a slower way at worst.
TEST(EagerPlans, HearNonsenseWithoutHarm) {
  std::mt19937_64 random(20261126);
  EagerPlans plans(true, EagerPlans::up_to, {}, read_clock);
  int marked = 0;
  for (int i = 0; i < 200'000; ++i) {
    if (random() % 16 == 0) now = random();
    const std::uint64_t bytes = 4 * kib + random() % (124 * kib);
    const auto to = static_cast<std::uint32_t>(random() % 3);
    wire::BatchReport report = wire::BatchReport::of(random());
    if (random() % 4 != 0)
      report = {.mark = static_cast<std::uint16_t>(marked), .count = 1, .ticks = report.ticks};
    const auto fate =
        plans.begin({.to = to,
                     .nearness = random() % 2 ? LivePlans::Nearness::near : LivePlans::Nearness::far,
                     .bytes = bytes,
                     .start = random() % 2 ? Start::blocking : Start::nonblocking,
                     .assumed_eager = bytes <= 16 * kib,
                     .report = plans.awaits(to) ? report.packed() : 0});
    plans.wrote(fate.mark, random(), 1 + static_cast<std::uint32_t>(random() % 16));
    if (fate.mark != 0) marked = fate.mark;
    if (!plans.covers(bytes)) plans = EagerPlans(true, EagerPlans::up_to, {}, read_clock);
  }
  for (const auto& report : plans.report(1))
    for (const auto& times : report.times)
      EXPECT_GE(times.predicted, 0);
}

TEST(BatchReport, IsReadAsItWasWritten) {
  const wire::BatchReport report{.mark = 65535, .count = 64, .ticks = 0xffff'fffe};
  const auto read = wire::BatchReport::of(report.packed());
  EXPECT_EQ(read.mark, report.mark);
  EXPECT_EQ(read.count, report.count);
  EXPECT_EQ(read.ticks, report.ticks);
  EXPECT_EQ(wire::BatchReport::of(0).mark, 0);
}

}  // namespace
}  // namespace isthmus::eager_plans_test
