#include "route/workload.hpp"

#include <gtest/gtest.h>

namespace isthmus::workload_test {
namespace {

/// A window of messages of which `blocking` are blocking; how often the workload changed.
int window(WorkloadTrace& trace, std::uint32_t blocking) {
  int changes = 0;
  for (std::uint32_t i = 0; i < WorkloadTrace::window; ++i) {
    changes += trace.started(i < blocking ? Start::blocking : Start::nonblocking);
  }
  return changes;
}

constexpr std::uint32_t per_cent(std::uint32_t share) {
  return (WorkloadTrace::window * share + 50) / 100;
}

TEST(Workload, IsUnknownForTheFirstMessages) {
  WorkloadTrace trace;
  for (std::uint32_t i = 1; i < WorkloadTrace::window; ++i)
    EXPECT_FALSE(trace.started(Start::blocking));
  EXPECT_EQ(trace.workload(), Workload::unknown);
  EXPECT_EQ(trace.text(), "");
}

TEST(Workload, FollowsAProgramThatChangesPhaseAndBack) {
  WorkloadTrace trace;
  EXPECT_EQ(window(trace, WorkloadTrace::window), 1);
  EXPECT_EQ(trace.workload(), Workload::latency);
  EXPECT_EQ(window(trace, per_cent(25)), 1);
  EXPECT_EQ(trace.text(), "bandwidth-bound (75 % nonblocking), since message 512");
  EXPECT_EQ(window(trace, 0), 0);
  EXPECT_EQ(trace.since(), 512U);
  EXPECT_EQ(window(trace, WorkloadTrace::window), 1);
  EXPECT_EQ(trace.text(), "latency-bound (0 % nonblocking), since message 1024");
}

TEST(Workload, StaysWhatItWasInAMixture) {
  WorkloadTrace latency, bandwidth;
  window(latency, WorkloadTrace::window);
  window(bandwidth, 0);
  for (const std::uint32_t share : {55U, 45U, 50U}) {
    EXPECT_EQ(window(latency, per_cent(share)), 0);
    EXPECT_EQ(window(bandwidth, per_cent(share)), 0);
  }
  EXPECT_EQ(latency.workload(), Workload::latency);
  EXPECT_EQ(bandwidth.workload(), Workload::bandwidth);
}

}  // namespace
}  // namespace isthmus::workload_test
