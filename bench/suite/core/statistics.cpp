#include "suite/core/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace isthmus::bench {
namespace {

// The logarithm of the probability of exactly k heads in n throws.
double log_heads(std::size_t n, std::size_t k) {
  const auto count = static_cast<double>(n);
  const auto heads = static_cast<double>(k);
  return std::lgamma(count + 1) - std::lgamma(heads + 1) - std::lgamma(count - heads + 1) -
         count * std::log(2.0);
}

}  // namespace

double quantile(std::span<const double> sorted, double q) {
  if (sorted.empty()) return 0;
  const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

Interval median_interval(std::span<const double> sorted, double confidence) {
  const std::size_t n = sorted.size();
  if (n == 0) return {};
  // outside: the probability that the median is below the k-th sample, that is, fewer than k of n lie below
  // it.
  double outside = std::exp(log_heads(n, 0));
  std::size_t k = 1;
  double reached = 1 - 2 * outside;
  while (2 * (k + 1) <= n) {
    const double further = outside + std::exp(log_heads(n, k));
    if (1 - 2 * further < confidence) break;
    outside = further;
    reached = 1 - 2 * outside;
    ++k;
  }
  return {sorted[k - 1], sorted[n - k], std::max(reached, 0.0)};
}

Summary summarise(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {.count = samples.size(),
          .minimum = samples.front(),
          .maximum = samples.back(),
          .mean = sum / static_cast<double>(samples.size()),
          .median = quantile(samples, 0.5),
          .interval = median_interval(samples)};
}

bool converged(std::span<const double> medians, std::size_t blocks, double tolerance) {
  if (medians.size() < blocks) return false;
  const auto last = medians.last(blocks);
  const auto [low, high] = std::minmax_element(last.begin(), last.end());
  return *high - *low <= tolerance * *low;
}

double relative_error(const Summary& summary) {
  return summary.median == 0 ? 0
                             : (summary.interval.high - summary.interval.low) / 2 / std::abs(summary.median);
}

}  // namespace isthmus::bench
