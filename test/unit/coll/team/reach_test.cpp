// Whether the members of a communicator copy directly does not depend on who comes first.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "coll/context/footing.hpp"
#include "coll/flow/driver.hpp"
#include "coll/lanes/in_lanes.hpp"
#include "coll_data.hpp"
#include "engine_ranks.hpp"

namespace isthmus::coll::reach_test {
namespace {

using namespace testing_data;

constexpr std::uint32_t ranks = 3;
constexpr testing_ranks::Conditions conditions{"Reach", {64, 64 * 1024}};

Ref<Communicator> world_of(Engine& engine) {
  std::vector<PeerId> members(engine.size());
  std::iota(members.begin(), members.end(), 0U);
  return Communicator::make(engine, make_ref<Group>(std::move(members)), Engine::world_context);
}

/// Where a rank lets others try whether they reach it; 0 as long as it has not come so far in MPI_Init.
std::atomic_ref<std::uint64_t> published(Engine& engine) {
  return std::atomic_ref(engine.region().block(engine.rank()).place.probe_address);
}

/// Takes back what this rank has published while others ask, and publishes it behind that.
template <class Ask>
void come_late(const testing_ranks::Rank& rank, const Ask& ask) {
  const bool is_late = rank.id() == static_cast<int>(ranks) - 1;
  const std::uint64_t address = published(rank.engine).load();
  if (is_late) published(rank.engine).store(0);
  rank.meet();
  if (is_late) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    published(rank.engine).store(address);
  }
  ask();
}

TEST(Reach, OfATeamIsTriedWhenAllHaveJoined) {
  testing_ranks::run(ranks, conditions, [](const testing_ranks::Rank& rank) {
    const auto comm = world_of(rank.engine);
    const auto footing = Footing::of(*comm);
    ASSERT_TRUE(footing && (*footing)->team());
    come_late(rank, [&] {
      const Result<bool> direct = (*footing)->team()->direct();
      ASSERT_TRUE(direct);
      EXPECT_TRUE(*direct);
    });
  });
}

TEST(Reach, OfLanesIsTriedWhenAllHaveJoined) {
  testing_ranks::run(ranks, conditions, [](const testing_ranks::Rank& rank) {
    const auto comm = world_of(rank.engine);
    LaneTeam* const team = LaneTeam::of(*comm);
    ASSERT_TRUE(team);
    constexpr std::int64_t count = 100'000;
    const Ints wanted = data(0, 0, count);
    const auto bcast = [&] {
      Ints buffer = rank.id() == 0 ? wanted : Ints(wanted.size(), -1);
      Driver driver(rank.engine);
      Flow flow = start_on_host({*comm, Lane::nonblocking(*comm, driver)},
                                call::Bcast{buffer.data(), count, &int_type(), 0});
      rank.engine.wait_for([&] { return flow.is_done(); });
      expect_done(flow.result());
      EXPECT_EQ(buffer, wanted);
    };
    come_late(rank, bcast);
    ASSERT_TRUE(team->direct());
    EXPECT_TRUE(*team->direct());
  });
}

}  // namespace
}  // namespace isthmus::coll::reach_test
