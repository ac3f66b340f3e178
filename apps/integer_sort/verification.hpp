// Whether the ranks are right.
#pragma once

#include <vector>

#include "common/member.hpp"
#include "problem.hpp"
#include "ranking.hpp"

namespace integer_sort {

// How many of the test keys lie with this process and have the published rank. Local, and cheap: it is done
// in the timed part, as the report demands.
[[nodiscard]] int count_right_tests(const Problem& problem, const Ranked& ranked, int iteration);

// Puts the keys in order by their ranks, then looks whether each is at least as large as the one before it,
// across processes too, and whether they are the keys that there were: their number, their sum and the sum of
// their squares (modulo 2^64). Collective; all get the same answer. `original` are the keys that this process
// held before the ranking.
[[nodiscard]] bool is_sorted_by_rank(const Problem& problem, const Ranked& ranked,
                                     const std::vector<int>& original, const apps::Member& member);

}  // namespace integer_sort
