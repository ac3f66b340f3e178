#include "route/shared_lessons.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace isthmus {
namespace {

using Words = std::array<std::atomic<std::uint64_t>, wire::lesson_words>;
constexpr SharedLessons::Kind kind{.all_ways = true, .size_class = 32};

TEST(SharedLessons, AreReadAsTheyWereWrittenForEachKindApart) {
  Words words{};
  const SharedLessons lessons(words);
  EXPECT_FALSE(lessons.read(kind));
  lessons.write(kind, {.way = LongWay::stream, .ticks_per_byte = 0.125});
  const auto read = lessons.read(kind);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->way, LongWay::stream);
  EXPECT_EQ(read->ticks_per_byte, 0.125);
  for (SharedLessons::Kind other : {kind, kind, kind, kind}) {
    static int change = 0;
    (change == 0 ? other.far : change == 1 ? other.all_ways : other.many) ^= true;
    if (change++ == 3) other = {.all_ways = true, .size_class = 33};
    EXPECT_FALSE(lessons.read(other)) << change;
  }
}

TEST(SharedLessons, OfSizesThatAreNeverLongAreNotKept) {
  Words words{};
  const SharedLessons lessons(words);
  for (const std::size_t size_class : {std::size_t{0}, std::size_t{15}, std::size_t{80}, std::size_t{127}}) {
    lessons.write({.size_class = size_class}, {.way = LongWay::pull, .ticks_per_byte = 1});
    EXPECT_FALSE(lessons.read({.size_class = size_class}));
  }
  for (const auto& word : words)
    EXPECT_EQ(word.load(), 0U);
}

TEST(SharedLessons, WithoutMemoryAreNone) {
  const SharedLessons lessons;
  lessons.write(kind, {.way = LongWay::pull, .ticks_per_byte = 1});
  EXPECT_FALSE(lessons.read(kind));
}

TEST(SharedLessons, CostsThatAreNoneAreNotWritten) {
  Words words{};
  const SharedLessons lessons(words);
  for (const double cost : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity(), 2 * SharedLessons::slowest}) {
    lessons.write(kind, {.way = LongWay::pull, .ticks_per_byte = cost});
    EXPECT_FALSE(lessons.read(kind)) << cost;
  }
}

TEST(SharedLessons, WhateverAHostileRankWritesIsAWayAndACostOrNothing) {
  Words words{};
  const SharedLessons lessons(words);
  std::mt19937_64 random(3);
  int read = 0;
  for (int i = 0; i < 20'000; ++i) {
    // Mostly with the stamp of a lesson, so that what is beside it is looked at.
    std::uint64_t value = random();
    if (i % 4 != 0) value = (value & 0xffff'ffff'0000'0007) | 0x4c65'7300;
    for (auto& word : words)
      word.store(value, std::memory_order_relaxed);
    const auto lesson = lessons.read(kind);
    if (!lesson) continue;
    ++read;
    EXPECT_LT(static_cast<std::size_t>(lesson->way), long_way_count);
    EXPECT_GT(lesson->ticks_per_byte, 0);
    EXPECT_LE(lesson->ticks_per_byte, SharedLessons::slowest);
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace isthmus
