// Whether something else ran on our cores. A loop of fixed work is timed over and over (fixed work quanta):
// on a quiet machine all of them take what the fastest takes.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "common/measure.hpp"
#include "suite/core/statistics.hpp"

namespace isthmus::bench {

// The share of the time that went elsewhere, 0 to 1.
inline double lost_share(std::span<const double> quanta) {
  if (quanta.empty()) return 0;
  double sum = 0;
  for (const double quantum : quanta)
    sum += quantum;
  std::vector<double> sorted(quanta.begin(), quanta.end());
  std::sort(sorted.begin(), sorted.end());
  const double undisturbed = quantile(sorted, 0.05);
  return sum == 0 ? 0 : std::max(0.0, 1 - undisturbed * static_cast<double>(quanta.size()) / sum);
}

inline constexpr double noisy_from = 0.05;

// Times quanta of about 10 us for 4 ms: beside shorter ones, reading a virtual machine's clock shows.
inline double measure_lost_share() {
  constexpr int turns = 30000;
  std::vector<double> quanta;
  const double start = now_seconds();
  double before = start;
  while (before - start < 4e-3) {
    for (int i = 0; i < turns; ++i)
      asm volatile("" : : "r"(i) : "memory");
    const double after = now_seconds();
    quanta.push_back(after - before);
    before = after;
  }
  return lost_share(quanta);
}

}  // namespace isthmus::bench
