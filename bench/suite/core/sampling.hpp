// How much is measured: which process leads has no part in it, nor what is measured.
#pragma once

#include <span>

#include "suite/core/statistics.hpp"

namespace isthmus::bench {

struct Effort {
  double seconds = 0.1;  // to measure for, warm-up not counted
  long iterations = 0;   // that many operations instead
  long warmup = -1;      // that many operations instead of warming up until the times have converged
};

// A block of samples, each of so many operations back to back. Nothing to do: 0 samples.
struct Block {
  long operations = 1;
  long samples = 0;
};

// A sample is long enough that reading the clock does not show: 20 us against 20 to 30 ns.
inline constexpr double shortest_sample = 20e-6;

// The operations of the next trial, while a sample is still too short; 0 when `operations`, which took
// `seconds`, are enough.
long longer_sample(long operations, double seconds);

// The blocks of a warm-up by convergence; each takes about a twentieth of the time.
Block warmup_block(const Effort& effort, long operations, double sample_seconds);
// A warm-up that has not converged after twice the time of the measurement ends all the same, and the result
// says so.
double longest_warmup(const Effort& effort);

// The next block of the measurement, when these samples are there and `elapsed` seconds went into them: no
// block once the 95 % interval is within 1 % of the median, or four times the effort is spent.
Block next_block(const Effort& effort, long operations, std::span<const double> samples, double elapsed);

}  // namespace isthmus::bench
