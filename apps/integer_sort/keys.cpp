#include "keys.hpp"

#include <cstddef>

#include "random.hpp"

namespace integer_sort {

std::vector<int> make_keys(const Problem& problem, const KeyShare& share) {
  Random random;
  random.skip(4 * static_cast<std::uint64_t>(share.begin));
  std::vector<int> keys(static_cast<std::size_t>(share.size));
  // A key is limit x (r1 + r2 + r3 + r4) / 4, rounded down; with a limit that is a power of two that is a
  // shift.
  const int shift = Random::bits + 2 - problem.limit_log2;
  for (int& key : keys) {
    std::uint64_t sum = 0;
    for (int i = 0; i < 4; ++i)
      sum += random.next();
    key = static_cast<int>(sum >> shift);
  }
  return keys;
}

void replace_keys(const Problem& problem, const KeyShare& share, int iteration, std::vector<int>& keys) {
  auto put = [&](std::int64_t index, int key) {
    if (share.holds(index)) keys[static_cast<std::size_t>(index - share.begin)] = key;
  };
  put(iteration, iteration);
  put(iteration + iterations, problem.limit() - iteration);
}

}  // namespace integer_sort
