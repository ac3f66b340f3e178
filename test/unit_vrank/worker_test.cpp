#include "vrank/worker.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "vrank/rank_space.hpp"
#include "vrank/rank_thread.hpp"
#include "vrank/scheduler.hpp"

namespace isthmus::vrank {
namespace {

using namespace std::chrono_literals;

long thread_of_kernel() {
  return ::syscall(SYS_gettid);
}

std::chrono::nanoseconds processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// Ranks with two workers that do what a test says.
class WorkerTest : public testing::Test {
 protected:
  static constexpr std::uint32_t ranks = 4, workers = 2;
  static constexpr Edge edge{.make = [](RankTurns& /*turns*/) -> void* { return nullptr; },
                             .make_current = [](void* /*runtime*/) noexcept {},
                             .is_open = [](const void* /*runtime*/) noexcept { return false; },
                             .has_finalized = [](const void* /*runtime*/) noexcept { return true; }};

  void add(std::function<void(Fiber&)> work) {
    const std::size_t i = works.size();
    works.push_back(std::move(work));
    const RankSpace space(static_cast<std::uint32_t>(i), ranks);
    auto stack = RankStack::make(space.stack_end(), std::size_t{256} << 10);
    ASSERT_TRUE(stack);
    stacks.push_back(std::move(*stack));
    auto thread = RankThread::start(space.thread_end());
    ASSERT_TRUE(thread);
    threads.push_back(std::move(*thread));
    fibers[i].thread = threads.back()->pointer();
    fibers[i].environment = environ;
    scheduler.add(fibers[i], stacks.back(), &WorkerTest::begin, this);
  }
  void run() {
    std::jthread second([this] { run(1); });
    run(0);
  }
  void run(std::uint32_t worker) {
    while (scheduler.worker(worker).run())
      ++ended;
  }
  /// As MPI_Init does.
  static void open(Fiber& fiber) {
    fiber.joined({});
    fiber.await_all();
  }

  static void begin(void* argument) {
    auto& test = *static_cast<WorkerTest*>(argument);
    Fiber& fiber = *Scheduler::current();
    test.works[static_cast<std::size_t>(&fiber - test.fibers.data())](fiber);
    Scheduler::end();
  }

  Scheduler scheduler{0, ranks, workers, edge};
  std::vector<std::function<void(Fiber&)>> works;
  std::vector<RankStack> stacks;
  std::vector<std::unique_ptr<RankThread>> threads;
  std::array<Fiber, ranks> fibers{};
  std::atomic<int> ended{0};
};

TEST_F(WorkerTest, RanksSpreadInBlocksOnceAllHaveJoined) {
  std::array<long, ranks> before{}, after{};
  std::array<std::uint32_t, ranks> with{};
  for (std::size_t i = 0; i < ranks; ++i)
    add([&, i](Fiber& fiber) {
      before[i] = thread_of_kernel();
      EXPECT_FALSE(fiber.can_move());
      EXPECT_EQ(fiber.workers(), workers);
      open(fiber);
      EXPECT_TRUE(fiber.can_move());
      after[i] = thread_of_kernel();
      with[i] = fiber.worker();
    });
  run();
  EXPECT_EQ(ended, ranks);
  for (std::size_t i = 0; i < ranks; ++i)
    EXPECT_EQ(before[i], thread_of_kernel());
  EXPECT_EQ(with, (std::array<std::uint32_t, ranks>{0, 0, 1, 1}));
  EXPECT_EQ(after[0], after[1]);
  EXPECT_EQ(after[2], after[3]);
  EXPECT_NE(after[0], after[2]);
}

TEST_F(WorkerTest, WhoHasEndedIsNotWaitedFor) {
  std::atomic<int> spread{0};
  for (std::size_t i = 0; i < ranks; ++i)
    add([&, i](Fiber& fiber) {
      if (i == 1 || i == 3) return;
      open(fiber);
      ++spread;
    });
  run();
  EXPECT_EQ(ended, ranks);
  EXPECT_EQ(spread, 2);
}

TEST_F(WorkerTest, ARankMovesWithItsThreadLocalStorage) {
  for (int i = 0; i < static_cast<int>(ranks); ++i)
    add([i](Fiber& fiber) {
      open(fiber);
      for (int step = 0; step < 1000; ++step) {
        errno = i;
        const auto to = static_cast<std::uint32_t>(i + step) % workers;
        fiber.move_to(to);
        EXPECT_EQ(fiber.worker(), to);
        EXPECT_EQ(errno, i);
        EXPECT_EQ(Scheduler::current(), &fiber);
        if (step % 7 == 0) fiber.give_way(true, false);
      }
    });
  run();
  EXPECT_EQ(ended, ranks);
}

TEST_F(WorkerTest, AVisitorGoesHomeWhenItGivesWay) {
  for (std::size_t i = 0; i < ranks; ++i)
    add([](Fiber& fiber) {
      open(fiber);
      const long home = thread_of_kernel();
      for (int round = 0; round < 100; ++round) {
        fiber.visit(0);
        const long there = thread_of_kernel();
        fiber.visit(0);
        EXPECT_EQ(thread_of_kernel(), there);
        EXPECT_EQ(there == home, fiber.worker() == 0);
        fiber.give_way(true, false);
        EXPECT_EQ(thread_of_kernel(), home);
      }
    });
  run();
  EXPECT_EQ(ended, ranks);
}

TEST_F(WorkerTest, ARankThatMovesIsWokenWhereItIs) {
  constexpr int rounds = 300;
  std::array<std::atomic<std::uint32_t>, workers> words{};
  std::atomic<int> asked{0}, answered{0};
  const auto post = [&] {
    return RankPost{.doorbells = {}, .sleep_with = [&](std::uint32_t worker) { return &words[worker]; }};
  };
  for (std::size_t i = 0; i < ranks; ++i)
    add([&, i](Fiber& fiber) {
      fiber.joined(post());
      fiber.await_all();
      for (int round = 1; i == 0 && round <= rounds; ++round) {
        bool first = true;
        while (asked < round)
          fiber.give_way(std::exchange(first, false), fiber.announces());
        fiber.move_to(static_cast<std::uint32_t>(round) % workers);
        answered = round;
      }
    });
  const auto begin = std::chrono::steady_clock::now();
  std::jthread asks([&] {
    for (int round = 1; round <= rounds; ++round) {
      // Long enough for the worker to have fallen asleep.
      std::this_thread::sleep_for(1ms);
      asked = round;
      fibers[0].wake();
      while (answered < round)
        std::this_thread::yield();
    }
  });
  run();
  EXPECT_EQ(answered, rounds);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, rounds * 10ms) << "a lost wake-up costs 20 ms";
}

TEST_F(WorkerTest, WorkIsWhatARankDoesAndNotThatItWaits) {
  std::atomic<bool> over{false};
  std::array<std::uint64_t, ranks> work{};
  for (std::size_t i = 0; i < ranks; ++i)
    add([&, i](Fiber& fiber) {
      open(fiber);
      static_cast<void>(fiber.take_work());
      if (i == 1) {
        const auto end = std::chrono::steady_clock::now() + 50ms;
        while (std::chrono::steady_clock::now() < end)
          ;
        over = true;
      }
      for (bool had_news = true; !over; had_news = false)
        fiber.give_way(had_news, false);
      work[i] = fiber.take_work();
      if (i == 1) {
        EXPECT_LT(fiber.take_work(), work[1] / 4) << "it is counted once";
      }
    });
  run();
  for (const std::size_t i : {0, 2, 3})
    EXPECT_LT(work[i], work[1] / 4) << i;
}

TEST_F(WorkerTest, WhatARankSleepsIsNoWork) {
  std::array<std::uint64_t, ranks> work{};
  for (std::size_t i = 0; i < ranks; ++i)
    add([&, i](Fiber& fiber) {
      open(fiber);
      // Ranks 0 and 1 of one worker, and 2 and 3 of the other.
      if (i % 2 == 0)
        std::this_thread::sleep_for(100ms);
      else
        for (const auto begin = processor_time(); processor_time() - begin < 20ms;)
          ;
      fiber.give_way(true, false);
      work[i] = fiber.take_work();
    });
  run();
  for (const std::size_t i : {0, 2})
    EXPECT_LT(work[i], work[i + 1] / 4) << i;
}

}  // namespace
}  // namespace isthmus::vrank
