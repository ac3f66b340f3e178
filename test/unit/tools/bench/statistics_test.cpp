#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "suite/core/clock_offset.hpp"
#include "suite/core/noise.hpp"
#include "suite/core/sampling.hpp"
#include "suite/core/statistics.hpp"

namespace isthmus::bench::statistics_test {
namespace {

std::vector<double> one_to(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

TEST(BenchStatistics, QuantilesLieBetweenNeighbours) {
  const std::vector<double> values = one_to(5);
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 4.6);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 5);
  EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0);
}

// Tables of the binomial distribution: of 10 samples the 2nd and the 9th, with 97.85 %; of 100 the 40th and
// the 61st, with 96.48 %.
TEST(BenchStatistics, TheIntervalOfTheMedianIsThatOfTheTables) {
  const Interval ten = median_interval(one_to(10));
  EXPECT_DOUBLE_EQ(ten.low, 2);
  EXPECT_DOUBLE_EQ(ten.high, 9);
  EXPECT_NEAR(ten.confidence, 0.9785, 0.0001);
  const Interval hundred = median_interval(one_to(100));
  EXPECT_DOUBLE_EQ(hundred.low, 40);
  EXPECT_DOUBLE_EQ(hundred.high, 61);
  EXPECT_NEAR(hundred.confidence, 0.9648, 0.0001);
}

TEST(BenchStatistics, FewSamplesSayHowLittleTheyAreSureOf) {
  const Interval five = median_interval(one_to(5));
  EXPECT_DOUBLE_EQ(five.low, 1);
  EXPECT_DOUBLE_EQ(five.high, 5);
  EXPECT_NEAR(five.confidence, 1 - 2 * std::pow(0.5, 5), 1e-12);
  EXPECT_DOUBLE_EQ(median_interval(one_to(1)).confidence, 0);
}

TEST(BenchStatistics, TheIntervalHoldsTheTrueMedianAsOftenAsItSays) {
  std::mt19937 random(20261121);
  std::exponential_distribution<double> times(1.0);
  const double true_median = std::log(2.0);
  int held = 0;
  constexpr int trials = 4000;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> samples(31);
    std::generate(samples.begin(), samples.end(), [&] { return times(random); });
    const Summary summary = summarise(samples);
    if (summary.interval.low <= true_median && true_median <= summary.interval.high) ++held;
  }
  EXPECT_GE(held, trials * 0.945);
  EXPECT_LE(held, trials * 0.985);
}

TEST(BenchStatistics, OutliersStayInButLeaveTheMedianAlone) {
  std::vector<double> samples(99, 2.0);
  samples.push_back(1000);
  const Summary summary = summarise(samples);
  EXPECT_EQ(summary.count, 100U);
  EXPECT_DOUBLE_EQ(summary.median, 2);
  EXPECT_DOUBLE_EQ(summary.maximum, 1000);
  EXPECT_NEAR(summary.mean, 11.98, 1e-9);
}

TEST(BenchStatistics, AWarmUpHasConvergedWhenItsLastBlocksAgree) {
  EXPECT_FALSE(converged(std::vector{1.0, 1.0}));
  EXPECT_FALSE(converged(std::vector{9.0, 3.0, 1.5, 1.1}));
  EXPECT_TRUE(converged(std::vector{9.0, 3.0, 1.01, 1.0, 1.015}));
  EXPECT_FALSE(converged(std::vector{1.0, 1.0, 1.03}));
}

TEST(BenchSampling, ASampleGrowsUntilTheClockDoesNotShow) {
  long operations = 1;
  constexpr double each = 200e-9;
  int trials = 0;
  for (long next = 1; next > 0;
       next = longer_sample(operations, static_cast<double>(operations) * each), ++trials)
    operations = next;
  EXPECT_GE(static_cast<double>(operations) * each, shortest_sample);
  EXPECT_LT(static_cast<double>(operations) * each, 2 * shortest_sample);
  EXPECT_LT(trials, 6);
  EXPECT_EQ(longer_sample(1, 1e-3), 0);
}

// Feeds `next_block` with samples that `time` gives, until it wants no more.
template <class Time>
std::vector<double> measure_all(const Effort& effort, long operations, Time time, long* done = nullptr) {
  std::vector<double> samples;
  double elapsed = 0;
  for (Block block; (block = next_block(effort, operations, samples, elapsed)).samples > 0;)
    for (long i = 0; i < block.samples; ++i) {
      samples.push_back(time());
      elapsed += samples.back() * static_cast<double>(block.operations);
      if (done) *done += block.operations;
    }
  return samples;
}

TEST(BenchSampling, QuietTimesAreMeasuredForTheWantedTime) {
  const auto samples = measure_all({.seconds = 0.1}, 100, [] { return 1e-6; });
  EXPECT_NEAR(static_cast<double>(samples.size()) * 100e-6, 0.1, 0.005);
}

TEST(BenchSampling, NoisyTimesAreMeasuredLongerButNotForever) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> times(1e-3, 9e-3);
  const auto samples = measure_all({.seconds = 0.1}, 1, [&] { return times(random); });
  const double all = std::accumulate(samples.begin(), samples.end(), 0.0);
  EXPECT_GT(all, 0.15);
  EXPECT_LT(all, 0.6);
}

TEST(BenchSampling, AnOperationOfSecondsGetsFewSamples) {
  const auto samples = measure_all({.seconds = 0.1}, 1, [] { return 0.5; });
  EXPECT_LE(samples.size(), 12U);
}

TEST(BenchSampling, AsManyIterationsAsTheUserSays) {
  for (const long wanted : {1L, 7L, 1000L, 1001L}) {
    long done = 0;
    measure_all({.iterations = wanted}, std::min(wanted, 80L), [] { return 1e-6; }, &done);
    EXPECT_GE(done, wanted);
    EXPECT_LT(done, wanted + wanted / 80 + 1) << wanted;
  }
}

TEST(BenchClock, TheShortestExchangeTellsTheOffset) {
  // Their clock is 5 s ahead. One answer was held up on its way back by 2 s, another came within 0.2 s.
  const std::vector<Exchange> seen{{10, 15.1, 12.2}, {20, 25.1, 20.2}, {30, 35.6, 30.7}};
  const Offset offset = offset_of(seen);
  EXPECT_NEAR(offset.seconds, 5, 1e-9);
  EXPECT_NEAR(offset.error, 0.1, 1e-9);
}

TEST(BenchClock, TheOffsetIsWrongByNoMoreThanItSays) {
  std::mt19937 random(11);
  std::exponential_distribution<double> way(1e6);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Exchange> seen;
    double now = 0;
    for (int i = 0; i < 10; ++i) {
      const double forth = way(random);
      const double back = way(random);
      seen.push_back({now, now + forth - 3, now + forth + back});
      now += forth + back;
    }
    const Offset offset = offset_of(seen);
    EXPECT_LE(std::abs(offset.seconds + 3), offset.error + 1e-12);
  }
}

TEST(BenchNoise, LostTimeIsWhatQuantaTakeBeyondTheFastest) {
  EXPECT_DOUBLE_EQ(lost_share(std::vector{1.0, 1.0, 1.0, 1.0}), 0);
  EXPECT_DOUBLE_EQ(lost_share(std::vector{1.0, 1.0, 1.0, 5.0}), 0.5);
  EXPECT_DOUBLE_EQ(lost_share({}), 0);
}

}  // namespace
}  // namespace isthmus::bench::statistics_test
