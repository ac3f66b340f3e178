#include "suite/core/sampling.hpp"

#include <algorithm>

namespace isthmus::bench {
namespace {

constexpr long fewest_samples = 12;  // the interval of 12 leaves out two at each end
constexpr long first_samples = 3;    // they tell how long the others will take
constexpr long most_samples = 5000;
constexpr double wanted_error = 0.01;

long fitting(double seconds, double sample_seconds) {
  return std::clamp(static_cast<long>(seconds / std::max(sample_seconds, 1e-9)), 1L, most_samples);
}

}  // namespace

long longer_sample(long operations, double seconds) {
  constexpr long most_operations = 1L << 26;
  if (seconds >= shortest_sample || operations >= most_operations) return 0;
  const double growth = std::clamp(1.3 * shortest_sample / std::max(seconds, 1e-9), 1.5, 64.0);
  return std::min(most_operations, static_cast<long>(static_cast<double>(operations) * growth) + 1);
}

Block warmup_block(const Effort& effort, long operations, double sample_seconds) {
  return {operations, std::max(3L, fitting(effort.seconds / 20, sample_seconds))};
}

double longest_warmup(const Effort& effort) {
  return 2 * effort.seconds;
}

Block next_block(const Effort& effort, long operations, std::span<const double> samples, double elapsed) {
  if (effort.iterations > 0) {
    if (!samples.empty()) return {operations, 0};
    const long count = std::max(1L, effort.iterations / operations);
    return {(effort.iterations + count - 1) / count, count};
  }
  const double spent = samples.empty() ? 0 : elapsed / static_cast<double>(samples.size());
  if (samples.empty()) return {operations, first_samples};
  const auto count = static_cast<long>(samples.size());
  // What a slow operation may take: a dozen samples, but not minutes.
  const double patience = std::max(4 * effort.seconds, 2.0);
  const long missing = fewest_samples - count;
  if (missing > 0 && elapsed >= patience) return {operations, 0};
  if (missing > 0)
    return {operations, elapsed + static_cast<double>(missing) * spent < patience ? missing : 1L};
  if (elapsed < effort.seconds && count < most_samples)
    return {operations, std::min(fitting(effort.seconds - elapsed, spent), most_samples - count)};
  const Summary summary = summarise({samples.begin(), samples.end()});
  if (relative_error(summary) <= wanted_error || elapsed >= 4 * effort.seconds) return {operations, 0};
  return {operations, fitting(effort.seconds / 2, spent)};
}

}  // namespace isthmus::bench
