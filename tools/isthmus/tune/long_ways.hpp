#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/pair_runs.hpp"
#include "tune/taught.hpp"

/// Which way long messages come fastest between two ranks of this machine.
namespace isthmus::tool {

/// The fastest way against the next, of figures that were measured in turn.
struct Contest {
  std::size_t best = 0, second = 0;  ///< positions of the ways
  double low = 0, high = 0;          ///< the best one's time by the second's, from run to run
  /// Whether no run says the opposite.
  [[nodiscard]] bool decided() const noexcept { return high < 1; }
};
/// `times`: for each way its times by run, as many for each, one at least. With five runs or more, the lowest
/// and the highest ratio do not count.
Contest contest_of(std::span<const std::vector<double>> times);

/// How many runs there are at least, and at most where it is not decided before.
struct Rounds {
  int least, most, batches;
  std::vector<std::uint64_t> sizes;
};

/// Jobs that `ask_long_ways` runs at most.
std::size_t jobs_for(const Rounds& rounds);
/// Measures both sides' copies, the receiver's and the ring, with fresh data and the same buffers, one
/// message at a time and 64 under way; goes on until it is decided. Prints what it finds, also where it
/// cannot decide. What is taught: the kinds of messages for which fresh and old data speak for the same way.
std::expected<std::vector<Taught>, std::string> ask_long_ways(const Rounds& rounds, ProgressBar& bar);

}  // namespace isthmus::tool
