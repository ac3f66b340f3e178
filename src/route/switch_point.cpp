#include "route/switch_point.hpp"

#include <algorithm>

namespace isthmus::tuning {
namespace {

bool gains(double time, double over) noexcept {
  return time < over * (1 - worth_it);
}

}  // namespace

std::size_t switch_point(std::span<const double> first, std::span<const double> second,
                         std::size_t usual) noexcept {
  const std::size_t sizes = std::min(first.size(), second.size());
  std::size_t point = std::min(usual, sizes);
  while (point < sizes && gains(first[point], second[point]))
    ++point;
  if (point > usual) return point;
  while (point > 0 && gains(second[point - 1], first[point - 1]))
    --point;
  return point;
}

std::size_t best_of(std::span<const std::span<const double>> candidates, std::size_t usual) {
  const auto usual_times = candidates[usual];
  const auto mean = [&](std::span<const double> times) {
    double sum = 0;
    for (std::size_t i = 0; i < usual_times.size(); ++i)
      sum += times[i] / usual_times[i];
    return sum / static_cast<double>(usual_times.size());
  };
  std::size_t best = usual;
  double least = 1 - worth_it;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (const double relative = mean(candidates[i]); i != usual && relative < least) {
      best = i;
      least = relative;
    }
  return best;
}

}  // namespace isthmus::tuning
