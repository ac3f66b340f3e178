#include "vrank/scheduler.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "base/futex.hpp"
#include "launch/beside_turns.hpp"
#include "vrank/rank_space.hpp"
#include "vrank/rank_thread.hpp"

namespace isthmus::vrank {
namespace {

/// Ranks that do what a test says, and the edge that they have: which of them is current.
class SchedulerTest : public testing::Test {
 protected:
  static constexpr std::uint32_t most = 4;

  static inline thread_local void* current = nullptr;
  static constexpr Edge edge{.make = [](RankTurns& /*turns*/) -> void* { return nullptr; },
                             .make_current = [](void* runtime) noexcept { current = runtime; },
                             .is_open = [](const void* /*runtime*/) noexcept { return false; },
                             .has_finalized = [](const void* /*runtime*/) noexcept { return true; }};

  void add(std::function<void()> work) {
    const std::size_t i = count++;
    works[i] = std::move(work);
    const RankSpace space(static_cast<std::uint32_t>(i), most);
    auto stack = RankStack::make(space.stack_end(), std::size_t{256} << 10);
    ASSERT_TRUE(stack);
    stacks[i] = std::move(*stack);
    auto thread = RankThread::start(space.thread_end());
    ASSERT_TRUE(thread);
    threads[i] = std::move(*thread);
    fibers[i].thread = threads[i]->pointer();
    fibers[i].environment = environ;
    fibers[i].runtime = &fibers[i];
    begins[i] = {this, i};
    scheduler.add(fibers[i], stacks[i], &SchedulerTest::begin, &begins[i]);
  }
  void run() {
    while (Fiber* const ended = scheduler.worker(0).run())
      ends += static_cast<char>('0' + (ended - fibers.data()));
  }
  /// What a rank does that waits for `ready` alone, as `Idle` has it.
  template <class Ready>
  void wait(Ready ready) {
    bool first = true;
    while (!ready()) {
      turns().give_way(std::exchange(first, false), true);
      ++looks;
    }
  }

  struct Begin {
    SchedulerTest* test;
    std::size_t i;
  };
  static void begin(void* argument) {
    const Begin& own = *static_cast<Begin*>(argument);
    EXPECT_EQ(current, &own.test->fibers[own.i]);
    own.test->works[own.i]();
    Scheduler::end();
  }

  static RankTurns& turns() { return *Scheduler::current(); }

  Scheduler scheduler{8, most, 1, edge};
  std::array<std::function<void()>, most> works;
  std::array<RankStack, most> stacks;
  std::array<std::unique_ptr<RankThread>, most> threads;
  std::array<Fiber, most> fibers{};
  std::array<Begin, most> begins{};
  std::size_t count = 0;
  std::string order, ends;
  std::size_t looks = 0;
};

TEST_F(SchedulerTest, EachHasItsTurnInACircle) {
  for (const char name : {'a', 'b', 'c'})
    add([this, name] {
      for (int i = 0; i < 3; ++i) {
        order += name;
        turns().give_way(true, false);
      }
    });
  run();
  EXPECT_EQ(order, "abcabcabc");
  EXPECT_EQ(ends, "012");
  EXPECT_EQ(Scheduler::current(), nullptr);
}

TEST_F(SchedulerTest, WhoHasBeenWrittenToIsNext) {
  std::array<std::atomic<std::uint64_t>, 1> bell{};
  std::atomic<std::uint32_t> wakes{0};
  bool over = false;
  for (const char name : {'a', 'b', 'c'})
    add([&, name] {
      if (name == 'c')
        turns().joined({.doorbells = bell, .sleep_with = [&](std::uint32_t) { return &wakes; }});
      turns().give_way(true, false);
      if (name == 'a') bell[0] = 1;
      if (name == 'c') over = true;
      order += name;
      if (name == 'a') turns().give_way(true, false);
    });
  run();
  EXPECT_EQ(order, "acb") << "the one after a would be b";
  EXPECT_TRUE(over);
}

TEST_F(SchedulerTest, WhoKeepsTheBellRingingDoesNotKeepOthersFromTheirTurn) {
  std::array<std::atomic<std::uint64_t>, 1> bell{1};
  bool over = false;
  add([&] {
    turns().joined({.doorbells = bell, .sleep_with = {}});
    while (!over)
      turns().give_way(true, false);
  });
  add([&] {
    turns().joined({.doorbells = bell, .sleep_with = {}});
    while (!over)
      turns().give_way(true, false);
  });
  add([&] { over = true; });
  run();
  EXPECT_TRUE(over);
}

TEST_F(SchedulerTest, ARankHasErrnoAndExceptionsOfItsOwn) {
  for (const int number : {11, 12, 13})
    add([this, number] {
      try {
        throw std::runtime_error(std::to_string(number));
      } catch (const std::runtime_error& caught) {
        errno = number;
        turns().give_way(true, false);
        EXPECT_EQ(errno, number);
        EXPECT_EQ(caught.what(), std::to_string(number));
        try {
          throw;
        } catch (const std::runtime_error& again) {
          EXPECT_EQ(again.what(), std::to_string(number));
        }
      }
    });
  run();
  EXPECT_EQ(ends.size(), 3U);
}

TEST_F(SchedulerTest, AProcessWhoseRanksAllWaitSleepsUntilSomebodyWakesIt) {
  std::atomic<std::uint32_t> wakes{0};
  std::atomic<bool> ready{false};
  for (int i = 0; i < 3; ++i)
    add([&] {
      turns().joined({.doorbells = {}, .sleep_with = [&](std::uint32_t) { return &wakes; }});
      wait([&] { return ready.load(); });
    });
  std::jthread waker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ready = true;
    ++wakes;
    futex_wake(wakes);
  });
  run();
  EXPECT_GT(scheduler.worker(0).sleeps(), 0U);
  EXPECT_LT(scheduler.worker(0).sleeps(), 100U) << "a sleep lasts 20 ms where nobody wakes the process";
  EXPECT_LT(looks, 5000U);
}

TEST_F(SchedulerTest, WhoWaitsInTheKernelGivesWay) {
  std::atomic<bool> other_had_turns{false};
  int result = 0;
  add([&] {
    result = launch::beside_turns(&turns(), [&]() -> Result<int> {
               while (!other_had_turns)
                 std::this_thread::yield();
               return 42;
             }).value_or(-1);
  });
  add([&] {
    for (int i = 0; i < 3; ++i)
      turns().give_way(true, false);
    other_had_turns = true;
  });
  run();
  EXPECT_EQ(result, 42);
}

TEST_F(SchedulerTest, AProcessWhoseRanksAllWaitInTheKernelSleepsBeforeTheyHaveJoined) {
  std::atomic<std::uint32_t> wakes{0};
  for (int i = 0; i < 3; ++i)
    add([&, i] {
      const auto result = launch::beside_turns(&turns(), [&]() -> Result<> {
        std::this_thread::sleep_for(std::chrono::milliseconds(100 * (i + 1)));
        return i == 1 ? fail(ErrorClass::other, "no") : Result<>();
      });
      EXPECT_EQ(result.has_value(), i != 1);
      turns().joined({.doorbells = {}, .sleep_with = [&](std::uint32_t) { return &wakes; }});
    });
  const auto begin = std::chrono::steady_clock::now();
  run();
  EXPECT_GT(scheduler.worker(0).sleeps(), 0U);
  EXPECT_LT(scheduler.worker(0).sleeps(), 100U) << "a sleep lasts 20 ms where nobody wakes the process";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(SchedulerTest, WhatIsThrownBesideTheTurnsComesToItsRank) {
  add([&] {
    EXPECT_THROW(EXPECT_TRUE(launch::beside_turns(&turns(), []() -> Result<> { throw std::bad_alloc(); })),
                 std::bad_alloc);
  });
  run();
  EXPECT_EQ(ends, "0");
}

TEST(BesideTurns, AProcessOfOneRankDoesItItself) {
  const auto caller = std::this_thread::get_id();
  EXPECT_EQ(
      launch::beside_turns(nullptr, []() -> Result<std::thread::id> { return std::this_thread::get_id(); }),
      caller);
}

TEST_F(SchedulerTest, WhoPollsKeepsTheProcessAwake) {
  std::atomic<std::uint32_t> wakes{0};
  bool over = false;
  add([&] {
    turns().joined({.doorbells = {}, .sleep_with = [&](std::uint32_t) { return &wakes; }});
    wait([&] { return over; });
  });
  add([&] {
    for (int i = 0; i < 2000; ++i)
      turns().give_way(false, false);  // as MPI_Test does
    over = true;
  });
  run();
  EXPECT_EQ(scheduler.worker(0).sleeps(), 0U);
}

TEST(RankTurnsOfAProcess, KnowItsRanks) {
  static constexpr Edge none{};
  const Scheduler scheduler(8, 4, 1, none);
  EXPECT_FALSE(scheduler.is_here(7));
  EXPECT_TRUE(scheduler.is_here(8));
  EXPECT_TRUE(scheduler.is_here(11));
  EXPECT_FALSE(scheduler.is_here(12));
}

}  // namespace
}  // namespace isthmus::vrank
