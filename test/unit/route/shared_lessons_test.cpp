#include "route/shared_lessons.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "route/shared_call_lessons.hpp"

namespace isthmus::shared_lessons_test {
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

TEST(SharedLessons, OfATableSayThatTheyAre) {
  Words words{};
  const SharedLessons lessons(words);
  lessons.write(kind, {.way = LongWay::pull, .ticks_per_byte = 1, .is_tuned = true});
  ASSERT_TRUE(lessons.read(kind));
  EXPECT_TRUE(lessons.read(kind)->is_tuned);
  EXPECT_EQ(lessons.read(kind)->way, LongWay::pull);
  lessons.write(kind, {.way = LongWay::pull, .ticks_per_byte = 1});
  EXPECT_FALSE(lessons.read(kind)->is_tuned) << "a rank of this job has learned it";
}

TEST(SharedEagerLessons, AreReadAsTheyWereWrittenForEachKindApart) {
  std::array<std::atomic<std::uint64_t>, wire::eager_lesson_words> words{};
  const SharedEagerLessons lessons(words);
  const SharedEagerLessons::Kind one{.far = true, .nonblocking = false, .several = false, .size_class = 3};
  lessons.write(one, {.way = EagerWay::rendezvous, .ticks_per_byte = 0.5});
  ASSERT_TRUE(lessons.read(one));
  EXPECT_EQ(lessons.read(one)->way, EagerWay::rendezvous);
  for (const SharedEagerLessons::Kind& other :
       {SharedEagerLessons::Kind{.far = false, .nonblocking = false, .several = false, .size_class = 3},
        SharedEagerLessons::Kind{.far = true, .nonblocking = true, .several = false, .size_class = 3},
        SharedEagerLessons::Kind{.far = true, .nonblocking = false, .several = true, .size_class = 3},
        SharedEagerLessons::Kind{.far = true, .nonblocking = false, .several = false, .size_class = 4},
        SharedEagerLessons::Kind{.size_class = SharedEagerLessons::size_classes}})
    EXPECT_FALSE(lessons.read(other));
  for (auto& word : words)
    word = ~std::uint64_t{0};
  EXPECT_FALSE(lessons.read(one)) << "nonsense is no lesson";
}

/// What a table says is there until somebody has learned better.
TEST(SharedCallLessons, TakeWhatATableSaysAndNoMore) {
  std::array<std::atomic<std::uint64_t>, wire::call_lesson_words> words{};
  const SharedCallLessons lessons(words);
  const std::array taught{
      TaughtCall{.collective = 0, .way = 1, .in_lanes = 6, .members = 2, .up_to = 65536, .ticks_per_byte = 2},
      TaughtCall{.collective = 9, .way = 1, .in_lanes = {}, .up_to = 65536, .ticks_per_byte = 2},
      TaughtCall{.collective = 1, .way = 9, .in_lanes = {}, .up_to = 65536, .ticks_per_byte = 2},
      TaughtCall{.collective = 1, .way = 1, .in_lanes = 9, .up_to = 65536, .ticks_per_byte = 2},
      TaughtCall{.collective = 1, .way = 1, .in_lanes = {}, .up_to = 0, .ticks_per_byte = 2},
      TaughtCall{.collective = 1, .way = 1, .in_lanes = {}, .up_to = ~std::uint64_t{0}, .ticks_per_byte = 2}};
  lessons.take(taught);
  const SharedCallLessons::Kind kind_of_call{
      .collective = 0, .members = 2, .size_class = SharedCallLessons::size_class_of(65536)};
  ASSERT_TRUE(lessons.read(kind_of_call));
  EXPECT_TRUE(lessons.read(kind_of_call)->is_tuned);
  EXPECT_EQ(lessons.read(kind_of_call)->way, 1);
  EXPECT_EQ(lessons.read_in_lanes(kind_of_call), std::optional<std::uint8_t>(6));
  EXPECT_EQ(std::ranges::count_if(words, [](const auto& word) { return word.load() != 0; }), 1);
  lessons.write(kind_of_call, {.way = 3, .ticks_per_byte = 1});
  lessons.take(taught);
  EXPECT_EQ(lessons.read(kind_of_call)->way, 3);
  EXPECT_FALSE(lessons.read(kind_of_call)->is_tuned);
}

/// What calls find that do not block stands beside what blocking ones have found, or alone.
TEST(SharedCallLessons, OfCallsThatDoNotBlockStandAlone) {
  std::array<std::atomic<std::uint64_t>, wire::call_lesson_words> words{};
  const SharedCallLessons lessons(words);
  const SharedCallLessons::Kind one{
      .collective = 0, .members = 2, .size_class = SharedCallLessons::size_class_of(65536)};
  lessons.write_in_lanes(one, 6);
  EXPECT_EQ(lessons.read_in_lanes(one), std::optional<std::uint8_t>(6));
  EXPECT_FALSE(lessons.read(one)) << "blocking ones try all of theirs";
  lessons.write(one, {.way = 1, .ticks_per_byte = 2}, 3);
  lessons.write_in_lanes(one, 0);
  EXPECT_EQ(lessons.read_in_lanes(one), std::optional<std::uint8_t>(0));
  ASSERT_TRUE(lessons.read(one));
  EXPECT_EQ(lessons.read(one)->way, 1);
  lessons.write_in_lanes(one, SharedCallLessons::ways);
  EXPECT_EQ(lessons.read_in_lanes(one), std::optional<std::uint8_t>(0)) << "no such way";
}

/// What a table says of calls that do not block alone.
TEST(SharedCallLessons, OfCallsThatDoNotBlockAreTakenFromATableAlone) {
  std::array<std::atomic<std::uint64_t>, wire::call_lesson_words> words{};
  const SharedCallLessons lessons(words);
  const std::array taught{
      TaughtCall{.collective = 0, .way = {}, .in_lanes = 6, .members = 2, .up_to = 65536},
      TaughtCall{.collective = 1, .way = {}, .in_lanes = {}, .members = 2, .up_to = 65536},
      TaughtCall{.collective = 1, .way = {}, .in_lanes = SharedCallLessons::ways, .up_to = 65536}};
  lessons.take(taught);
  const SharedCallLessons::Kind one{
      .collective = 0, .members = 2, .size_class = SharedCallLessons::size_class_of(65536)};
  EXPECT_EQ(lessons.read_in_lanes(one), std::optional<std::uint8_t>(6));
  EXPECT_FALSE(lessons.read(one)) << "blocking ones try all of theirs";
  EXPECT_EQ(std::ranges::count_if(words, [](const auto& word) { return word.load() != 0; }), 1);
  lessons.write_in_lanes(one, 3);
  lessons.take(taught);
  EXPECT_EQ(lessons.read_in_lanes(one), std::optional<std::uint8_t>(3)) << "this job has learned better";
}

/// Teams of three and of four share what they learn; a table may have an entry of each.
TEST(SharedCallLessons, OfBothKindsOfCallsAreTakenInAnyOrder) {
  std::array taught{
      TaughtCall{.collective = 0, .way = {}, .in_lanes = 6, .members = 3, .up_to = 65536},
      TaughtCall{
          .collective = 0, .way = 1, .in_lanes = {}, .members = 4, .up_to = 65536, .ticks_per_byte = 2}};
  for (int order = 0; order < 2; ++order) {
    std::array<std::atomic<std::uint64_t>, wire::call_lesson_words> words{};
    const SharedCallLessons lessons(words);
    lessons.take(taught);
    const SharedCallLessons::Kind one{
        .collective = 0, .members = 4, .size_class = SharedCallLessons::size_class_of(65536)};
    EXPECT_EQ(lessons.read_in_lanes(one), std::optional<std::uint8_t>(6)) << order;
    ASSERT_TRUE(lessons.read(one)) << order;
    EXPECT_EQ(lessons.read(one)->way, 1) << order;
    std::swap(taught[0], taught[1]);
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
}  // namespace isthmus::shared_lessons_test
