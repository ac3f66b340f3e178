// Messages between hosts while memory runs out, at the n-th allocation from the first of them on, for every
// n. A call that fails with that has begun nothing, and may be made again. What has begun ends: with its
// data, or with the error that there was no memory, or that the other process is given up; and then nothing
// more is written.
#include <vector>

#include "carried.hpp"

namespace isthmus::testing_ranks {
namespace {

/// In the message itself, behind it, in one piece, in several, and so with a receive of less or with gaps.
constexpr std::uint64_t lengths[]{8, 2000, 100'000, 400'000, 1'000'000};

std::vector<Flight> flights() {
  std::vector<Flight> all;
  for (const std::uint64_t bytes : lengths)
    for (const bool is_early : {false, true}) {
      all.push_back({.bytes = bytes, .is_early = is_early});
      all.push_back({.bytes = bytes, .mode = SendMode::synchronous, .is_early = is_early});
      all.push_back({.bytes = bytes, .is_early = is_early, .has_gaps = true});
      all.push_back({.bytes = bytes, .is_early = is_early, .wanted = bytes / 4});
    }
  return all;
}

TEST(NetworkMemoryTest, MessagesBetweenHostsEnd) {
  if (!why_no_network().empty()) GTEST_SKIP() << why_no_network();
  exhaust(flights(), 2, {});
}

}  // namespace
}  // namespace isthmus::testing_ranks
