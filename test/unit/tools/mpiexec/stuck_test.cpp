// What follows from what the ranks of a job say of their waits: a pure function from records to sentences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "stuck/analysis.hpp"
#include "stuck/rank_state.hpp"
#include "stuck/text.hpp"

namespace isthmus::mpiexec::stuck::stuck_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using wire::WaitItem;
using Where = RankState::Where;

RankState waits(std::uint32_t rank, const char* call) {
  RankState state{.rank = rank, .where = Where::waiting, .process = 'S', .seconds = 5, .host = "here"};
  state.report.waits = 1;
  state.report.collective_root = state.report.root_process = -1;
  std::strncpy(state.report.call.data(), call, state.report.call.size() - 1);
  state.report.comms = 1;
  state.report.comm[0] = {.context = 0, .size = 4};
  std::strcpy(state.report.comm[0].name.data(), "MPI_COMM_WORLD");
  return state;
}

void add(RankState& state, WaitItem::Kind kind, std::int32_t peer, std::int32_t tag) {
  const bool has_come = kind == WaitItem::Kind::unmatched;
  state.report.item[state.report.items++] = {.kind = kind,
                                             .peer = peer,
                                             .tag = tag,
                                             .flags = has_come ? 0 : WaitItem::awaited,
                                             .context = 0,
                                             .bytes = 8};
}

RankState receives(std::uint32_t rank, std::int32_t from, std::int32_t tag) {
  RankState state = waits(rank, "MPI_Recv");
  add(state, WaitItem::Kind::receive, from, tag);
  return state;
}

RankState collects(std::uint32_t rank, const char* call, std::uint64_t number, std::uint32_t ranks) {
  RankState state = waits(rank, call);
  state.report.collective_number = state.report.comm[0].calls = number;
  state.report.knows_members = state.report.ranges = 1;
  state.report.range[0] = {.first = 0, .count = ranks, .stride = 1};
  return state;
}

RankState computes(std::uint32_t rank) {
  return {.rank = rank, .where = Where::outside, .process = 'R', .host = "here"};
}

TEST(Stuck, AMessageWithAnotherTagIsNamed) {
  RankState receiver = receives(3, 2, 7);
  add(receiver, WaitItem::Kind::unmatched, 2, 8);
  EXPECT_THAT(
      analyse({computes(2), receiver}),
      Contains(AllOf(HasSubstr("rank 2 has sent tag 8"), HasSubstr("rank 3 waits for tag 7 from rank 2"))));
}

TEST(Stuck, AMessageOfSomebodyElseIsNamed) {
  RankState receiver = receives(3, 2, 7);
  add(receiver, WaitItem::Kind::unmatched, 1, 7);
  EXPECT_THAT(analyse({computes(2), receiver}), Contains(HasSubstr("rank 1 has sent tag 7 to rank 3")));
}

TEST(Stuck, AMessageThatHasNothingToDoWithTheWaitIsNotNamed) {
  RankState receiver = receives(3, 2, 7);
  add(receiver, WaitItem::Kind::unmatched, 1, 8);
  EXPECT_THAT(analyse({computes(2), receiver}), Not(Contains(HasSubstr("has sent"))));
}

TEST(Stuck, CirclesOfTwoAndOfThree) {
  const auto two = analyse({receives(0, 1, 1), receives(1, 0, 1), computes(2)});
  EXPECT_THAT(two, ElementsAre(AllOf(HasSubstr("circle"), HasSubstr("rank 0 waits for rank 1 (MPI_Recv), "
                                                                    "rank 1 waits for rank 0 (MPI_Recv)"))));
  const auto three = analyse({receives(0, 1, 1), receives(1, 2, 1), receives(2, 0, 1)});
  EXPECT_THAT(three, ElementsAre(HasSubstr("rank 1 waits for rank 2 (MPI_Recv), rank 2 waits for rank 0")));
}

TEST(Stuck, AChainToARankThatComputesIsNoCircle) {
  const auto found = analyse({receives(0, 1, 1), receives(1, 2, 1), computes(2)});
  EXPECT_THAT(found, ElementsAre(AllOf(HasSubstr("ranks 0, 1 wait"), HasSubstr("for rank 2"))));
}

TEST(Stuck, WhereOneIsEnoughARankThatCanStillSendEndsTheCircle) {
  RankState either = waits(0, "MPI_Waitany");
  either.report.any = 1;
  add(either, WaitItem::Kind::receive, 1, 1);
  add(either, WaitItem::Kind::receive, 2, 1);
  EXPECT_THAT(analyse({either, receives(1, 0, 1), computes(2)}), Not(Contains(HasSubstr("circle"))));
  EXPECT_THAT(analyse({either, receives(1, 0, 1), receives(2, 0, 1)}), Contains(HasSubstr("circle")));
}

TEST(Stuck, ARankWithAnotherThreadInMpiIsInNoCircle) {
  RankState threaded = receives(0, 1, 1);
  threaded.report.others = 1;
  EXPECT_THAT(analyse({threaded, receives(1, 0, 1)}), Not(Contains(HasSubstr("circle"))));
}

TEST(Stuck, CollectivesThatDoNotFit) {
  const auto found = analyse({collects(0, "MPI_Barrier", 3, 3), collects(1, "MPI_Allreduce", 3, 3),
                              collects(2, "MPI_Barrier", 3, 3)});
  EXPECT_THAT(found,
              Contains(AllOf(HasSubstr("collective 3 on MPI_COMM_WORLD does not fit"),
                             HasSubstr("ranks 0, 2 in MPI_Barrier"), HasSubstr("rank 1 in MPI_Allreduce"))));
}

TEST(Stuck, WhoHasNotComeToACollective) {
  const auto found =
      analyse({collects(0, "MPI_Barrier", 3, 3), collects(1, "MPI_Barrier", 3, 3), computes(2)});
  EXPECT_THAT(
      found, Contains(AllOf(HasSubstr("ranks 0, 1 wait in MPI_Barrier"), HasSubstr("has not come: rank 2"))));
}

TEST(Stuck, WhoIsFurtherHasComeToACollective) {
  const auto found = analyse({collects(0, "MPI_Bcast", 3, 2), collects(1, "MPI_Barrier", 4, 2)});
  EXPECT_THAT(found, Not(Contains(AllOf(HasSubstr("rank 0 waits in MPI_Bcast"), HasSubstr("rank 1")))));
  EXPECT_THAT(found, Contains(AllOf(HasSubstr("rank 1 waits in MPI_Barrier"), HasSubstr("rank 0"))));
}

TEST(Stuck, AMessageAndABarrierMakeACircle) {
  EXPECT_THAT(analyse({receives(0, 1, 1), collects(1, "MPI_Barrier", 1, 2)}), Contains(HasSubstr("circle")));
}

TEST(Stuck, WhoWaitsForAnEndedRankHearsOfIt) {
  const RankState ended{.rank = 1, .where = Where::ended, .host = "here"};
  EXPECT_THAT(analyse({receives(0, 1, 1), ended}), ElementsAre(HasSubstr("for rank 1: has ended")));
}

TEST(Stuck, NothingFollowsFromRanksThatCompute) {
  EXPECT_THAT(analyse({computes(0), computes(1)}), IsEmpty());
  EXPECT_THAT(analyse({}), IsEmpty());
}

TEST(Stuck, RanksThatAreAlikeAreOneLine) {
  std::vector<RankState> ranks;
  for (std::uint32_t rank = 0; rank < 64; ++rank)
    ranks.push_back(rank == 3 ? computes(rank) : collects(rank, "MPI_Barrier", 1, 64));
  EXPECT_THAT(fold(ranks),
              ElementsAre("ranks 0-2, 4-63 (63): MPI_Barrier, collective 1 on MPI_COMM_WORLD, for 5.0 s",
                          "rank 3: does not wait in MPI; it computes"));
}

TEST(Stuck, StatesGoThroughAFrame) {
  const auto back = unpack(pack({receives(0, 1, 7), computes(1)}), 2);
  ASSERT_TRUE(back);
  EXPECT_EQ(report(*back), report({receives(0, 1, 7), computes(1)}));
  EXPECT_FALSE(unpack(pack({computes(5)}), 5)) << "a rank beyond the job";
  const std::string whole = pack({receives(0, 1, 7)});
  for (std::size_t size = 0; size < whole.size(); ++size)
    ASSERT_FALSE(unpack(whole.substr(0, size), 2)) << size;
}

TEST(Stuck, AHostileRecordIsMadeSafe) {
  for (int byte = 0; byte < 256; ++byte) {
    RankState state{.rank = 0, .where = Where::waiting, .host = "here"};
    std::memset(static_cast<void*>(&state.report), byte, sizeof state.report);
    state.report = wire::checked(state.report, 4);
    EXPECT_LE(state.report.items, state.report.item.size());
    EXPECT_LE(state.report.comms, state.report.comm.size());
    EXPECT_LE(state.report.ranges, state.report.range.size());
    const std::string text = report({state, computes(1)});
    for (const char each : text)
      ASSERT_TRUE(each == '\n' || (each >= ' ' && each <= '~')) << byte;
  }
}

}  // namespace
}  // namespace isthmus::mpiexec::stuck::stuck_test
