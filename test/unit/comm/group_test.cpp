#include "comm/group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace isthmus::group_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Ref<Group> group(std::vector<PeerId> members) {
  return make_ref<Group>(std::move(members));
}

std::vector<PeerId> members(const Ref<Group>& group) {
  return {group->members().begin(), group->members().end()};
}

TEST(Group, FindsRanksWhetherOrNotMembersAreInOrder) {
  for (const std::vector<PeerId>& processes :
       {std::vector<PeerId>{0, 1, 2, 3}, {2, 5, 7, 11}, {11, 2, 7, 5}, {1, 0}}) {
    const Ref<Group> g = group(processes);
    for (std::uint32_t rank = 0; rank < processes.size(); ++rank)
      EXPECT_EQ(g->rank_of(processes[rank]), rank);
    EXPECT_FALSE(g->contains(4));
    EXPECT_FALSE(g->contains(12));
  }
  EXPECT_FALSE(group({})->contains(0));
}

TEST(Group, SetOperationsKeepTheOrderThatTheStandardSays) {
  const Ref<Group> a = group({4, 1, 7, 2});
  const Ref<Group> b = group({9, 2, 4, 3});
  EXPECT_THAT(members(unite(*a, *b)), ElementsAre(4, 1, 7, 2, 9, 3));
  EXPECT_THAT(members(intersect(*a, *b)), ElementsAre(4, 2));
  EXPECT_THAT(members(intersect(*b, *a)), ElementsAre(2, 4));
  EXPECT_THAT(members(subtract(*a, *b)), ElementsAre(1, 7));
  EXPECT_THAT(members(subtract(*a, *a)), IsEmpty());
  EXPECT_THAT(members(unite(*group({}), *b)), ElementsAre(9, 2, 4, 3));
}

TEST(Group, ComparesByMembersAndOrder) {
  const Ref<Group> a = group({3, 1, 2});
  EXPECT_EQ(compare(*a, *group({3, 1, 2})), Comparison::identical);
  EXPECT_EQ(compare(*a, *group({1, 2, 3})), Comparison::similar);
  EXPECT_EQ(compare(*a, *group({1, 2, 4})), Comparison::unequal);
  EXPECT_EQ(compare(*a, *group({3, 1})), Comparison::unequal);
  EXPECT_EQ(compare(*group({}), *group({})), Comparison::identical);
}

TEST(Group, IncludesInTheOrderOfRanksAndExcludesInItsOwn) {
  const Ref<Group> g = group({10, 11, 12, 13});
  const std::vector<int> ranks = {3, 0, 2};
  EXPECT_THAT(members(*include(*g, ranks)), ElementsAre(13, 10, 12));
  EXPECT_THAT(members(*exclude(*g, ranks)), ElementsAre(11));
  EXPECT_THAT(members(*include(*g, {})), IsEmpty());
  EXPECT_THAT(members(*exclude(*g, {})), ElementsAre(10, 11, 12, 13));
}

TEST(Group, RefusesRanksThatDoNotExistOrComeTwice) {
  const Ref<Group> g = group({10, 11, 12});
  for (const std::vector<int>& ranks : {std::vector<int>{0, 3}, {-1}, {1, 1}}) {
    const Result<Ref<Group>> included = include(*g, ranks);
    ASSERT_FALSE(included);
    EXPECT_EQ(included.error().error_class(), ErrorClass::rank);
    EXPECT_THAT(included.error().text(), HasSubstr("ranks["));
    EXPECT_FALSE(exclude(*g, ranks));
  }
}

TEST(Group, ExpandsRangesForwardsAndBackwards) {
  const Ref<Group> g = group({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const std::vector<RankRange> ranges = {{1, 6, 2}, {9, 6, -3}, {0, 0, 7}};
  EXPECT_THAT(*expand(*g, ranges), ElementsAre(1, 3, 5, 9, 6, 0));
  EXPECT_THAT(*expand(*g, {}), IsEmpty());
}

TEST(Group, RefusesRangesThatNeverEndOrLeaveTheGroup) {
  const Ref<Group> g = group({0, 1, 2, 3});
  const auto error_of = [&](RankRange range) {
    const Result<std::vector<int>> ranks = expand(*g, std::span(&range, 1));
    return ranks ? ErrorClass::success : ranks.error().error_class();
  };
  EXPECT_EQ(error_of({0, 3, 0}), ErrorClass::arg);
  EXPECT_EQ(error_of({0, 3, -1}), ErrorClass::arg);
  EXPECT_EQ(error_of({3, 0, 5}), ErrorClass::arg);
  EXPECT_EQ(error_of({0, 4, 1}), ErrorClass::rank);
  EXPECT_EQ(error_of({-2, 3, 1}), ErrorClass::rank);
  EXPECT_EQ(error_of({0, 2147483647, 1}), ErrorClass::rank);
  EXPECT_EQ(error_of({-2147483647 - 1, 2147483647, 1}), ErrorClass::rank);
  EXPECT_EQ(error_of({0, 5, 3}), ErrorClass::success) << "only ranks that the range reaches count";
}

TEST(Group, TranslatesRanksAndTheNullProcess) {
  const Ref<Group> from = group({5, 6, 7});
  const Ref<Group> to = group({7, 5});
  const std::vector<int> ranks = {0, 1, 2, null_process};
  std::vector<int> there(ranks.size());
  ASSERT_TRUE(translate(*from, ranks, *to, there));
  EXPECT_THAT(there, ElementsAre(1, undefined, 0, null_process));
  const std::vector<int> bad = {0, 3};
  ASSERT_FALSE(translate(*from, bad, *to, there));
}

TEST(Group, SetOperationsOnAQuarterOfAMillionMembersDoNotTakeQuadraticTime) {
  // Quadratic work would be 6e10 steps, which no run of the tests waits for.
  std::vector<PeerId> ascending(1 << 18);
  std::iota(ascending.begin(), ascending.end(), 0U);
  std::vector<PeerId> descending(ascending.rbegin(), ascending.rend());
  const Ref<Group> a = group(ascending);
  const Ref<Group> b = group(descending);
  EXPECT_EQ(unite(*a, *b)->size(), ascending.size());
  EXPECT_EQ(members(intersect(*b, *a)), descending);
  EXPECT_EQ(subtract(*a, *b)->size(), 0U);
  EXPECT_EQ(compare(*a, *b), Comparison::similar);
  std::vector<int> ranks(descending.begin(), descending.end());
  EXPECT_EQ(members(*include(*a, ranks)), descending);
}

}  // namespace
}  // namespace isthmus::group_test
