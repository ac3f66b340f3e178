// The integer sort of the NAS Parallel Benchmarks: D. Bailey et al., NASA report RNR-94-007, section 2.6 (the
// problem, classes A and B), and the parameters and test values published with version 2 and later (classes
// S, W and C).
#pragma once

#include <array>
#include <cstdint>

namespace integer_sort {

// Iterations in which the keys are ranked.
inline constexpr int iterations = 10;

// A key whose rank is known.
struct TestKey {
  std::int64_t index;  // its place in the sequence of keys
  std::int64_t rank;   // the published value
  int slope;           // ranks move with the keys that each iteration replaces,
  int origin;          // from the published value in this iteration

  [[nodiscard]] std::int64_t rank_in(int iteration) const { return rank + slope * (iteration - origin); }
};

struct Problem {
  char name;
  int keys_log2;
  int limit_log2;
  int buckets_log2;  // not part of the problem: how finely the keys are divided among processes
  std::array<TestKey, 5> tests;

  [[nodiscard]] std::int64_t keys() const { return std::int64_t{1} << keys_log2; }
  [[nodiscard]] int limit() const { return 1 << limit_log2; }  // keys are less
  [[nodiscard]] int buckets() const { return 1 << buckets_log2; }
  [[nodiscard]] int bucket_of(int key) const { return key >> (limit_log2 - buckets_log2); }
  [[nodiscard]] int first_key_of(int bucket) const { return bucket << (limit_log2 - buckets_log2); }
};

// Nothing for a letter that names no class.
[[nodiscard]] const Problem* find_problem(char name);

}  // namespace integer_sort
