// Members of a team find out alike from which collective on all of them have data in GPU memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "coll/flat.hpp"
#include "coll/footing.hpp"
#include "engine_ranks.hpp"

namespace isthmus::coll {
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

class PresenceAt : public testing::TestWithParam<std::uint32_t> {
 protected:
  template <class Body>
  void run(const Body& body) {
    const testing_ranks::Conditions conditions{"Presence", {64, 64 * 1024}};
    testing_ranks::run(GetParam(), conditions, [&](const testing_ranks::Rank& rank) {
      std::vector<PeerId> members(rank.engine.size());
      std::iota(members.begin(), members.end(), 0U);
      const auto comm =
          Communicator::make(rank.engine, make_ref<Group>(std::move(members)), Engine::world_context);
      const auto footing = Footing::of(*comm);
      ASSERT_TRUE(footing && (*footing)->team());
      body(*(*footing)->team());
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, PresenceAt, testing::Values(2U, 3U, 5U));

TEST_P(PresenceAt, AllAgreeFromTheLastOnesFirstCallOn) {
  run([](Team& team) {
    constexpr int calls = 40;
    const int last = 2 + 3 * (team.size() - 1);
    // Once is enough: whoever has had it takes part in the question ever after.
    const Answers found = answers(team, calls, [&](int call) { return call == 2 + 3 * team.rank(); });
    for (int call = 1; call <= calls; ++call)
      EXPECT_EQ(found[static_cast<std::size_t>(call - 1)], call >= last) << "call " << call;
  });
}

TEST_P(PresenceAt, NobodyGoesWhereOneNeverHasIt) {
  run([](Team& team) {
    const Answers found = answers(team, 40, [&](int) { return team.rank() != team.size() - 1; });
    EXPECT_EQ(std::ranges::count(found, true), 0);
    EXPECT_EQ(team.has_used_gpu(), team.rank() != team.size() - 1);
  });
}

}  // namespace
}  // namespace isthmus::coll
