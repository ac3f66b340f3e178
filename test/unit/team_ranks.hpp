#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "coll/context/footing.hpp"
#include "engine_ranks.hpp"

namespace isthmus::coll::testing_team {

/// `body(comm, team)` on each of so many ranks of one host.
template <class Body>
void run_team(std::uint32_t ranks, const Body& body,
              const testing_ranks::Conditions& conditions = {"Team", {64, 64 * 1024}}) {
  testing_ranks::run(ranks, conditions, [&](const testing_ranks::Rank& rank) {
    std::vector<PeerId> members(rank.engine.size());
    std::iota(members.begin(), members.end(), 0U);
    const auto comm =
        Communicator::make(rank.engine, make_ref<Group>(std::move(members)), Engine::world_context);
    const auto footing = Footing::of(*comm);
    ASSERT_TRUE(footing && (*footing)->team());
    body(*comm, *(*footing)->team());
  });
}

/// Ranks of one host in a team, as many as the parameter says.
class TeamAt : public testing::TestWithParam<std::uint32_t> {
 protected:
  template <class Body>
  void run(const Body& body) {
    run_team(GetParam(), body);
  }
};

}  // namespace isthmus::coll::testing_team
