#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "suite/core/equations.hpp"
#include "suite/core/statistics.hpp"

namespace isthmus::bench::equations_test {
namespace {

// A timeline whose true answer is known: messages and migrations take what they take, and each launch of a
// kernel comes on top, with a mean, jitter around it, and now and then a long one.
class Timeline {
 public:
  Timeline(double launch, double jitter) : launch_(launch), jitter_(jitter) {}

  double launch() {
    const double spread = launch_ * jitter_ * spread_(random_);
    const double rare = rare_(random_) < 0.01 ? 10 * launch_ : 0;
    return std::max(0.0, launch_ + spread) + rare;
  }
  // What the benchmark measures of the launch overhead, before anything else.
  double measured_launch(int kernels) {
    std::vector<double> samples(401);
    for (double& sample : samples)
      sample = launches(kernels);
    return summarise(samples).median;
  }
  // A round trip of two messages of `message` with the migration that follows each.
  double round_trip(double message, double migration) {
    return 2 * (message + migration) + launch() + launch();
  }
  double window(double transfer, double migration, int kernels) {
    return transfer + migration * kernels + launches(kernels);
  }

 private:
  double launches(int kernels) {
    double sum = 0;
    for (int i = 0; i < kernels; ++i)
      sum += launch();
    return sum;
  }

  double launch_;
  double jitter_;
  std::mt19937 random_{42};
  std::normal_distribution<double> spread_{0, 1};
  std::uniform_real_distribution<double> rare_{0, 1};
};

class Equations : public testing::TestWithParam<double> {};

TEST_P(Equations, OneWayTimesComeOutWhateverALaunchCosts) {
  const double launch = GetParam() * 1e-6;
  for (const double jitter : {0.0, 0.1, 0.3}) {
    Timeline timeline(launch, jitter);
    const double overhead = timeline.measured_launch(1);
    std::vector<double> latencies(301);
    for (double& latency : latencies)
      latency = one_way(timeline.round_trip(12e-6, 3e-6), 2, overhead);
    // Jitter of what is subtracted remains in each sample; in the median only its uncertainty does.
    EXPECT_NEAR(summarise(latencies).median, 15e-6, 1e-10 + launch * (0.02 + jitter * 0.15))
        << launch << " " << jitter;
  }
}

TEST_P(Equations, BandwidthComesOutWhateverALaunchCosts) {
  const double launch = GetParam() * 1e-6;
  constexpr int kernels = 64;
  constexpr double transfer = 4e-3;
  constexpr double migration = 20e-6;
  for (const double jitter : {0.0, 0.1, 0.3}) {
    Timeline timeline(launch, jitter);
    const double overhead = timeline.measured_launch(kernels);
    std::vector<double> times(301);
    for (double& time : times)
      time = window_time(timeline.window(transfer, migration, kernels), overhead);
    EXPECT_NEAR(summarise(times).median, transfer + migration * kernels, 1e-10 + 0.02 * kernels * launch)
        << launch << " " << jitter;
  }
}

INSTANTIATE_TEST_SUITE_P(LaunchesOfMicroseconds, Equations, testing::Values(0.0, 0.5, 2.0, 5.0, 10.0, 20.0));

TEST(EquationOne, SubtractsNothingWhereNoKernelWasLaunched) {
  EXPECT_DOUBLE_EQ(one_way(10, 0, 3), 5);
  EXPECT_DOUBLE_EQ(one_way(10, 1, 3), 3.5);
  EXPECT_DOUBLE_EQ(one_way(10, 2, 3), 2);
}

TEST(Overlap, IsTheShareOfTheOperationThatTookNoTimeOfItsOwn) {
  EXPECT_DOUBLE_EQ(overlap(10, 10, 10), 1);
  EXPECT_DOUBLE_EQ(overlap(10, 10, 20), 0);
  EXPECT_DOUBLE_EQ(overlap(10, 10, 15), 0.5);
  EXPECT_DOUBLE_EQ(overlap(10, 10, 25), 0);  // slower than one after the other: hidden was nothing
  EXPECT_DOUBLE_EQ(overlap(10, 10, 9), 1);
  EXPECT_DOUBLE_EQ(overlap(0, 10, 10), 0);
}

}  // namespace
}  // namespace isthmus::bench::equations_test
