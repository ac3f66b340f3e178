// The verified and measured run.
#pragma once

#include <array>

#include "common/member.hpp"
#include "options.hpp"
#include "times.hpp"

namespace fft {

struct Outcome {
  double wave_error = 0;  // of the waves' transform: Waves::error()
  double wave_bound = 0;  // what it may be at most
  double trip_error = 0;  // of noise that was transformed there and back in each iteration, largest distance
  double trip_bound = 0;
  double seconds = 0;             // an iteration, there and back: the slowest process's median
  Times mean;                     // over processes, an iteration
  std::array<double, 2> parts{};  // bytes that a process sends to each other of its row and of its column in
                                  // a transpose, at most

  // Never true for a NaN.
  [[nodiscard]] bool waves_correct() const { return wave_error <= wave_bound; }
  [[nodiscard]] bool trip_correct() const { return trip_error <= trip_bound; }
  [[nodiscard]] bool correct() const { return waves_correct() && trip_correct(); }
};

// Collective; all get the same.
[[nodiscard]] Outcome run(const Options& options, const apps::Member& member);

// Floating-point operations of a transform there and back, by the usual count for real numbers: 2.5 N log2 N
// each way.
[[nodiscard]] double operations(const Triple& points);

}  // namespace fft
