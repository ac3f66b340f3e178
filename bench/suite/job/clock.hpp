// One clock for all ranks: rank 0's.
#pragma once

#include "common/measure.hpp"
#include "suite/core/clock_offset.hpp"

namespace isthmus::bench {

class Job;

class SynchronisedClock {
 public:
  // Exchanges 50 messages with each rank; collective. Clocks drift by some us a second: make one anew for
  // each size.
  explicit SynchronisedClock(const Job& job);

  // Seconds by rank 0's clock.
  [[nodiscard]] double now() const { return now_seconds() + own_.seconds; }
  // The most by which `now` is wrong, on any rank.
  [[nodiscard]] double error() const { return error_; }

 private:
  Offset own_;
  double error_ = 0;
};

}  // namespace isthmus::bench
