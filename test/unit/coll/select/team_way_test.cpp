// Which ways a team's call may take, and that the result is the same by all of them, bit for bit.
#include "coll/select/team_way.hpp"

#include <gtest/gtest.h>

#include "coll/area/team_area.hpp"

namespace isthmus::coll::team_way_test {
namespace {

using enum TeamWay;

Question asked(Collective collective, int ranks, std::uint64_t bytes, bool direct = true) {
  return {.collective = collective,
          .ranks = ranks,
          .bytes = bytes,
          .shared = true,
          .own_cores = true,
          .direct = direct};
}

constexpr Reducing exact{.elementwise = true, .in_order = true};

TEST(TeamWays, MovesGoByAllThatCarryThem) {
  EXPECT_EQ(ways_of(asked(Collective::bcast, 2, 65536), {}),
            TeamWays().add(staged).add(direct).add(direct_both).add(messages));
  EXPECT_EQ(ways_of(asked(Collective::bcast, 4, 16384, false), {}), TeamWays().add(flat).add(messages));
  EXPECT_EQ(ways_of(asked(Collective::gather, 4, 4096), {}), TeamWays().add(flat).add(messages).add(tree));
  EXPECT_EQ(ways_of(asked(Collective::scatter, 8, 4096), {}), TeamWays().add(messages).add(tree));
  EXPECT_EQ(ways_of(asked(Collective::allgather, 3, 20'000), {}),
            TeamWays().add(staged).add(direct).add(messages));
  EXPECT_EQ(ways_of(asked(Collective::alltoall, 4, 4096), {}),
            TeamWays().add(flat).add(staged).add(direct).add(messages));
  EXPECT_FALSE(ways_of(asked(Collective::alltoall, 64, 1 << 20), {}).has(staged)) << "4 GiB of the region";
}

TEST(TeamWays, ReductionsGoByThoseThatCombineInTheSameOrder) {
  EXPECT_EQ(ways_of(asked(Collective::allreduce, 4, 4096), exact),
            TeamWays().add(flat).add(staged).add(counted).add(direct).add(direct_all));
  EXPECT_EQ(ways_of(asked(Collective::reduce, 17, 4096), exact), TeamWays().add(staged).add(direct))
      << "several counters combine otherwise";
  EXPECT_EQ(ways_of(asked(Collective::reduce_scatter, 4, 4096), exact), TeamWays().add(flat).add(direct));
  EXPECT_FALSE(ways_of(asked(Collective::reduce, 4, 4096), {.elementwise = true}).has(counted))
      << "seats by socket";
  for (const Collective collective :
       {Collective::reduce, Collective::allreduce, Collective::reduce_scatter}) {
    EXPECT_FALSE(ways_of(asked(collective, 2, 4096), exact).has(messages));
    EXPECT_EQ(ways_of(asked(collective, 4, 4096), {.in_order = true}).count(), 0U)
        << "the program's own operation";
  }
  EXPECT_EQ(ways_of(asked(Collective::scan, 4, 4096), exact).count(), 0U);
}

TEST(TeamWays, AlgorithmsAreTheirWays) {
  for (const Collective collective :
       {Collective::bcast, Collective::gather, Collective::scatter, Collective::allgather,
        Collective::alltoall, Collective::reduce, Collective::allreduce}) {
    for (const int ranks : {2, 3, 16}) {
      for (const std::uint64_t bytes : {1025U, 16384U, 1U << 20}) {
        const Question question = asked(collective, ranks, bytes);
        const TeamWays ways = ways_of(question, exact);
        for (unsigned i = 0; i < ways.count(); ++i)
          EXPECT_EQ(way_of(algorithm_of(ways.at(i), question), collective), ways.at(i));
      }
    }
  }
  EXPECT_FALSE(way_of(Algorithm::segments, Collective::bcast));
}

TEST(TeamWays, TheWayOfTheTableIsAmongThemForMostCalls) {
  int among = 0, all = 0;
  for (const Collective collective : {Collective::bcast, Collective::allgather, Collective::alltoall,
                                      Collective::allreduce, Collective::reduce, Collective::gather}) {
    for (const int ranks : {2, 4, 8, 16}) {
      for (std::uint64_t bytes = 2048; bytes <= 1 << 24; bytes *= 2) {
        const Question question = asked(collective, ranks, bytes);
        const auto way = way_of(select(question), collective);
        ++all;
        among += way && ways_of(question, exact).has(*way) ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(among, all);
}

}  // namespace
}  // namespace isthmus::coll::team_way_test
