// Members of a team find out alike from which collective on all of them have data in GPU memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "team_ranks.hpp"

namespace isthmus::coll::gpu_presence_test {
namespace {

using Answers = std::vector<bool>;

/// What each of `calls` collectives found on this rank, which has its data in GPU memory in those where
/// `here(call)`; calls are numbered from 1.
template <class Here>
Answers answers(Team& team, int calls, Here here) {
  Answers found;
  for (int call = 1; call <= calls; ++call) {
    // Ranks run ahead of each other and fall behind.
    if ((team.rank() + call) % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    found.push_back(team.all_use_gpu(here(call)));
  }
  return found;
}

using PresenceAt = testing_team::TeamAt;

INSTANTIATE_TEST_SUITE_P(Ranks, PresenceAt, testing::Values(2U, 3U, 5U));

TEST_P(PresenceAt, AllAgreeFromTheLastOnesFirstCallOn) {
  run([](const Communicator&, Team& team) {
    constexpr int calls = 40;
    const int last = 2 + 3 * (team.size() - 1);
    // Once is enough: whoever has had it takes part in the question ever after.
    const Answers found = answers(team, calls, [&](int call) { return call == 2 + 3 * team.rank(); });
    for (int call = 1; call <= calls; ++call)
      EXPECT_EQ(found[static_cast<std::size_t>(call - 1)], call >= last) << "call " << call;
  });
}

TEST_P(PresenceAt, NobodyGoesWhereOneNeverHasIt) {
  run([](const Communicator&, Team& team) {
    const Answers found = answers(team, 40, [&](int) { return team.rank() != team.size() - 1; });
    EXPECT_EQ(std::ranges::count(found, true), 0);
    EXPECT_EQ(team.has_used_gpu(), team.rank() != team.size() - 1);
  });
}

}  // namespace
}  // namespace isthmus::coll::gpu_presence_test
