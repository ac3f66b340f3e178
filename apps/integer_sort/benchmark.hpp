// The measured run.
#pragma once

#include <vector>

#include "common/member.hpp"
#include "options.hpp"
#include "ranking.hpp"

namespace integer_sort {

struct Outcome {
  double seconds = 0;    // of the slowest process, all iterations
  Times mean;            // over processes, seconds in all iterations
  int right_tests = 0;   // of wanted_tests: test keys with the published rank
  int wanted_tests = 0;  // five in each iteration
  bool sorted = false;
  std::int64_t most_keys = 0;  // that a process held after the last exchange

  [[nodiscard]] bool correct() const { return right_tests == wanted_tests && sorted; }
};

// Collective; all get the same.
[[nodiscard]] Outcome run(const Options& options, const apps::Member& member);

}  // namespace integer_sort
