// What a row of samples comes to. Knows nothing of MPI. No sample is ever left out: outliers move the mean,
// the maximum and the tail, and the median tells what is usual.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace isthmus::bench {

// Where the true median lies, with `confidence` (0.95 where there are enough samples for it).
struct Interval {
  double low = 0;
  double high = 0;
  double confidence = 0;
};

struct Summary {
  std::size_t count = 0;
  double minimum = 0;
  double maximum = 0;
  double mean = 0;
  double median = 0;
  Interval interval;
};

// The value below which a share `q` (0 to 1) of the sorted samples lies, linear between neighbours.
double quantile(std::span<const double> sorted, double q);

// By order statistics: of n sorted samples the k-th and the (n+1-k)-th, with the largest k whose probability
// is at least the one asked for, by the exact binomial distribution. Assumes nothing of the distribution but
// that samples are independent. Fewer than six samples reach no 95 %: then it is the least and the greatest
// of them, with the confidence that these have.
Interval median_interval(std::span<const double> sorted, double confidence = 0.95);

Summary summarise(std::vector<double> samples);

// Warmed up: the medians of the last `blocks` blocks differ by no more than the share `tolerance`.
bool converged(std::span<const double> medians, std::size_t blocks = 3, double tolerance = 0.02);

// Half of the interval's width as a share of the median.
double relative_error(const Summary& summary);

}  // namespace isthmus::bench
