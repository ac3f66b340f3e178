// How times come from what was timed. Equations 1 and 2: Vadambacheri Manian and others, "OMB-UM" (2019),
// section IV.
#pragma once

#include <algorithm>

namespace isthmus::bench {

// Equation 1: one way, from a round trip in whose time `launches` data-migration kernels were launched, each
// at `launch` seconds. The paper's case MD - MD has 2 of them.
constexpr double one_way(double round_trip, int launches, double launch) {
  return (round_trip - launches * launch) / 2;
}

// Equation 2, as the time of one window: `launch` is what all of its kernels' launches took together.
constexpr double window_time(double elapsed, double launch) {
  return elapsed - launch;
}

// How much of a nonblocking operation was hidden behind the computation beside it, 0 to 1. `pure`: the
// operation without computation; `overall`: with it.
constexpr double overlap(double pure, double compute, double overall) {
  return pure <= 0 ? 0 : std::clamp(1 - (overall - compute) / pure, 0.0, 1.0);
}

}  // namespace isthmus::bench
