// The choice of algorithms is a pure function of what all ranks know alike.

#include <gtest/gtest.h>

#include <string>

#include "coll/area/team_area.hpp"
#include "coll/select/select.hpp"

namespace isthmus::coll::select_test {
namespace {

TEST(Select, SmallDataOfManyGoesThroughSharedMemory) {
  EXPECT_EQ(select({.collective = Collective::allreduce, .ranks = 2, .bytes = 8, .shared = true}),
            Algorithm::flat);
  EXPECT_EQ(select({.collective = Collective::allreduce, .ranks = 256, .bytes = 8, .shared = true}),
            Algorithm::counted);
}

TEST(Select, WithoutSharedMemoryNothingNeedsIt) {
  for (int c = 0; c < collective_count; ++c) {
    for (const int ranks : {2, 3, 16, 17, 1000}) {
      for (std::uint64_t bytes = 0; bytes < (1U << 26); bytes = bytes * 3 + 1) {
        const Question question{.collective = static_cast<Collective>(c), .ranks = ranks, .bytes = bytes};
        EXPECT_GE(select(question), Algorithm::dissemination) << name(question.collective) << ' ' << bytes;
      }
    }
  }
}

TEST(Select, WhatGoesThroughASlotFitsIntoIt) {
  for (int c = 0; c < collective_count; ++c) {
    for (const int ranks : {2, 3, 16, 17, 1000}) {
      for (std::uint64_t bytes = 1; bytes < (1U << 26); bytes = bytes * 5 / 4 + 1) {
        for (const bool direct : {false, true}) {
          const auto collective = static_cast<Collective>(c);
          if (collective == Collective::barrier) continue;
          const Algorithm chosen = select({collective, ranks, bytes, true, direct, true});
          if (chosen != Algorithm::flat && chosen != Algorithm::counted) continue;
          const bool all_blocks = collective == Collective::scatter || collective == Collective::alltoall;
          EXPECT_LE(bytes * (all_blocks ? static_cast<unsigned>(ranks) : 1U), slot_bytes)
              << name(collective) << ' ' << ranks;
        }
      }
    }
  }
}

TEST(Select, OperationsThatDoNotCommuteKeepTheirOrder) {
  for (const Collective collective :
       {Collective::reduce, Collective::allreduce, Collective::reduce_scatter, Collective::scan}) {
    for (std::uint64_t bytes = 0; bytes < (1U << 26); bytes = bytes * 3 + 1) {
      const Algorithm chosen = select({.collective = collective, .ranks = 7, .bytes = bytes});
      EXPECT_NE(chosen, Algorithm::ring);
      EXPECT_NE(chosen, Algorithm::halving);
      EXPECT_NE(chosen, Algorithm::pairwise);
    }
  }
}

bool works_in_domains(Algorithm algorithm) {
  return algorithm >= Algorithm::leaders;
}

TEST(Select, HostsAreKnownOnlyWhereACommunicatorSpansThem) {
  for (int c = 0; c < collective_count; ++c) {
    for (std::uint64_t bytes = 0; bytes < (1U << 26); bytes = bytes * 3 + 1) {
      Question question{
          .collective = static_cast<Collective>(c), .ranks = 8, .bytes = bytes, .commutative = true};
      EXPECT_FALSE(works_in_domains(select(question))) << name(question.collective) << ' ' << bytes;
      question.domains = Domains::hosts;
      EXPECT_NE(select(question), Algorithm::slices) << name(question.collective) << ' ' << bytes;
    }
  }
  for (const Collective collective : {Collective::barrier, Collective::bcast, Collective::allgather,
                                      Collective::alltoall, Collective::reduce, Collective::allreduce})
    EXPECT_EQ(select({.collective = collective, .ranks = 8, .bytes = 8, .domains = Domains::hosts}),
              Algorithm::leaders);
}

TEST(Select, SocketsMatterFromWhereCopyingOutweighsTurns) {
  const auto by_sockets = [](Collective collective, std::uint64_t bytes, bool even) {
    return select({.collective = collective,
                   .ranks = 8,
                   .bytes = bytes,
                   .shared = true,
                   .direct = true,
                   .commutative = true,
                   .domains = Domains::sockets,
                   .even = even});
  };
  for (int c = 0; c < collective_count; ++c)
    EXPECT_FALSE(works_in_domains(by_sockets(static_cast<Collective>(c), 8, true)));
  EXPECT_EQ(by_sockets(Collective::bcast, 1 << 20, false), Algorithm::segments);
  EXPECT_EQ(by_sockets(Collective::reduce, 1 << 20, false), Algorithm::leaders);
  EXPECT_EQ(by_sockets(Collective::allreduce, 1 << 20, true), Algorithm::slices);
  EXPECT_EQ(by_sockets(Collective::allreduce, 1 << 20, false), Algorithm::direct);
  EXPECT_EQ(by_sockets(Collective::allgather, 1 << 20, true), Algorithm::slices);
  EXPECT_EQ(by_sockets(Collective::alltoall, 1 << 20, true), Algorithm::direct);
}

TEST(Select, ARingAlongTheHostsIsForOperationsThatCommute) {
  const Question question{
      .collective = Collective::reduce, .ranks = 8, .bytes = 1 << 20, .domains = Domains::hosts};
  EXPECT_EQ(select(question), Algorithm::leaders);
  Question commutes = question;
  commutes.commutative = true;
  EXPECT_EQ(select(commutes), Algorithm::along);
}

TEST(Select, RecursiveDoublingOfBlocksOnlyForPowersOfTwo) {
  EXPECT_EQ(select({.collective = Collective::allgather, .ranks = 8, .bytes = 64}), Algorithm::doubling);
  EXPECT_EQ(select({.collective = Collective::allgather, .ranks = 7, .bytes = 64}), Algorithm::bruck);
}

TEST(Select, DirectCopiesAreAskedForOnlyWhereTheyDecide) {
  EXPECT_FALSE(asks_for_direct({.collective = Collective::bcast, .ranks = 2, .bytes = 8, .shared = true}));
  EXPECT_TRUE(
      asks_for_direct({.collective = Collective::bcast, .ranks = 2, .bytes = 1 << 16, .shared = true}));
  for (std::uint64_t bytes = 0; bytes < (1U << 26); bytes = bytes * 3 + 1) {
    const Question without{.collective = Collective::allreduce, .ranks = 4, .bytes = bytes, .shared = true};
    Question with = without;
    with.direct = true;
    if (!asks_for_direct(without)) EXPECT_EQ(select(with), select(without));
  }
}

TEST(Select, TheTablePrintsARowForEveryChoice) {
  const std::string text = describe_selection();
  for (int c = 0; c < collective_count; ++c)
    EXPECT_NE(text.find(std::string(name(static_cast<Collective>(c))) + ": "), std::string::npos);
  EXPECT_NE(text.find("allreduce: flat if shared memory, ranks <= 16, bytes <= 16384\n"), std::string::npos);
  EXPECT_NE(text.find("barrier: dissemination\n"), std::string::npos);
}

}  // namespace
}  // namespace isthmus::coll::select_test
