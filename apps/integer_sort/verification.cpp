#include "verification.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace integer_sort {
namespace {

// Number, sum, and sum of squares.
using Moments = std::array<std::uint64_t, 3>;

Moments moments_of_all(const std::vector<int>& keys, MPI_Comm comm) {
  Moments mine{};
  for (const int key : keys) {
    const auto value = static_cast<std::uint64_t>(key);
    mine[0] += 1;
    mine[1] += value;
    mine[2] += value * value;
  }
  Moments all{};
  MPI_Allreduce(mine.data(), all.data(), static_cast<int>(mine.size()), MPI_UINT64_T, MPI_SUM, comm);
  return all;
}

// -1 where no key was put.
std::vector<int> in_order(const Ranked& ranked) {
  std::vector<int> sorted(ranked.keys.size(), -1);
  std::vector<std::int32_t> end = ranked.at_most;
  for (const int key : ranked.keys) {
    const std::int32_t place = --end[static_cast<std::size_t>(key - ranked.first_key)];
    if (place < 0 || static_cast<std::size_t>(place) >= sorted.size()) return {};
    sorted[static_cast<std::size_t>(place)] = key;
  }
  return sorted;
}

}  // namespace

int count_right_tests(const Problem& problem, const Ranked& ranked, int iteration) {
  int right = 0;
  for (std::size_t i = 0; i < problem.tests.size(); ++i) {
    const int key = ranked.test_keys[i];
    if (ranked.holds(key) && ranked.rank_of(key) == problem.tests[i].rank_in(iteration)) ++right;
  }
  return right;
}

bool is_sorted_by_rank(const Problem& problem, const Ranked& ranked, const std::vector<int>& original,
                       const apps::Member& member) {
  const std::vector<int> sorted = in_order(ranked);
  int good = sorted.size() == ranked.keys.size() && std::ranges::is_sorted(sorted) ? 1 : 0;

  // Processes without keys pass on what lies before them.
  const int largest = sorted.empty() ? -1 : sorted.back();
  int before = -1;
  MPI_Exscan(&largest, &before, 1, MPI_INT, MPI_MAX, member.comm);
  if (member.rank == 0) before = -1;  // left undefined by the standard
  if (!sorted.empty() && sorted.front() < std::max(before, 0)) good = 0;

  std::int64_t count = static_cast<std::int64_t>(sorted.size());
  std::int64_t smaller = 0;
  MPI_Exscan(&count, &smaller, 1, MPI_INT64_T, MPI_SUM, member.comm);
  if (member.rank == 0) smaller = 0;
  if (!sorted.empty() && smaller != ranked.smaller) good = 0;

  const Moments now = moments_of_all(sorted, member.comm);
  if (now != moments_of_all(original, member.comm) || now[0] != static_cast<std::uint64_t>(problem.keys()))
    good = 0;
  int all_good = 0;
  MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, member.comm);
  return all_good == 1;
}

}  // namespace integer_sort
