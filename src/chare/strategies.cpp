#include "chare/strategies.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace isthmus::chare {
namespace {

/// How much more than the mean a process may have before `refine` takes from it.
constexpr double tolerance = 1.02;

using Weight = std::pair<double, std::size_t>;  ///< of what, and which

}  // namespace

void place_greedily(std::span<Load> loads, std::uint32_t processes) {
  std::vector<double> sums(processes);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    loads[i].to = loads[i].rank;
    if (loads[i].is_fixed != 0)
      sums[loads[i].rank] += loads[i].seconds;
    else
      order.push_back(i);
  }
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return loads[a].seconds > loads[b].seconds; });
  std::set<Weight> least;
  for (std::size_t i = 0; i < processes; ++i)
    least.emplace(sums[i], i);
  for (const std::size_t i : order) {
    Load& each = loads[i];
    if (sums[each.rank] > least.begin()->first) each.to = static_cast<std::uint32_t>(least.begin()->second);
    least.erase({sums[each.to], each.to});
    sums[each.to] += each.seconds;
    least.emplace(sums[each.to], each.to);
  }
}

void refine(std::span<Load> loads, std::uint32_t processes) {
  std::vector<double> sums(processes);
  std::vector<std::set<Weight>> movable(processes);
  double all = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    Load& each = loads[i];
    each.to = each.rank;
    sums[each.rank] += each.seconds;
    all += each.seconds;
    if (each.is_fixed == 0 && each.seconds > 0) movable[each.rank].emplace(each.seconds, i);
  }
  const double enough = tolerance * all / processes;
  std::set<Weight> by_sum;
  for (std::size_t i = 0; i < processes; ++i)
    by_sum.emplace(sums[i], i);
  while (!by_sum.empty() && by_sum.rbegin()->first > enough) {
    const auto [most, from] = *by_sum.rbegin();
    const auto [least, to] = *by_sum.begin();
    auto& mine = movable[from];
    auto which = mine.upper_bound({enough - least, loads.size()});
    if (which != mine.begin()) --which;
    if (which == mine.end() || least + which->first >= most) {
      by_sum.erase({most, from});  // nothing helps it
      continue;
    }
    const auto [seconds, chare] = *which;
    mine.erase(which);
    by_sum.erase({most, from});
    by_sum.erase({least, to});
    loads[chare].to = static_cast<std::uint32_t>(to);
    sums[from] -= seconds;
    sums[to] += seconds;
    by_sum.emplace(sums[from], from);
    by_sum.emplace(sums[to], to);
  }
}

}  // namespace isthmus::chare
