// The keys that a process begins with.
#pragma once

#include <cstdint>
#include <vector>

#include "common/share.hpp"
#include "problem.hpp"

namespace integer_sort {

using KeyShare = apps::Share<std::int64_t>;  // of the sequence of all keys

// The same sequence for any division into shares.
[[nodiscard]] std::vector<int> make_keys(const Problem& problem, const KeyShare& share);

// Before it ranks, each iteration replaces two keys of the sequence (RNR-94-007, section 2.6, step 4).
void replace_keys(const Problem& problem, const KeyShare& share, int iteration, std::vector<int>& keys);

}  // namespace integer_sort
