#include "comm/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace isthmus::topology_test {
namespace {

using testing::ElementsAre;

std::vector<int> balanced(int nodes, std::vector<int> dims) {
  EXPECT_TRUE(balance_dimensions(nodes, dims)) << nodes;
  return dims;
}

TEST(Topology, BalancesDimensionsLargestFirst) {
  // The table of MPI 5.0, section 8.5.2, and harder ones.
  EXPECT_THAT(balanced(6, {0, 0}), ElementsAre(3, 2));
  EXPECT_THAT(balanced(7, {0, 0}), ElementsAre(7, 1));
  EXPECT_THAT(balanced(6, {0, 3, 0}), ElementsAre(2, 3, 1));
  EXPECT_THAT(balanced(12, {0, 0, 0}), ElementsAre(3, 2, 2));
  EXPECT_THAT(balanced(16, {0, 0, 0}), ElementsAre(4, 2, 2));
  EXPECT_THAT(balanced(60, {0, 0, 0}), ElementsAre(5, 4, 3));
  EXPECT_THAT(balanced(1, {0, 0}), ElementsAre(1, 1));
  EXPECT_THAT(balanced(8, {4, 2}), ElementsAre(4, 2));
  EXPECT_THAT(balanced(2 * 3 * 5 * 7 * 11, {0, 0}), ElementsAre(55, 42));
  EXPECT_THAT(balanced(1 << 20, {0, 0, 0, 0}), ElementsAre(32, 32, 32, 32));
  EXPECT_THAT(balanced(2147483647, {0, 0}), ElementsAre(2147483647, 1)) << "a prime";
}

TEST(Topology, RefusesDimensionsThatDoNotDivide) {
  for (std::vector<int> dims : {std::vector<int>{0, 3, 0}, {2, 2}, {-1, 0}, {}, {2147483647, 2147483647}}) {
    const Result<> done = balance_dimensions(7, dims);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().error_class(), ErrorClass::dims);
  }
}

TEST(Topology, AGridNumbersItsPlacesWithTheLastCoordinateFastest) {
  const Grid grid({{2, false}, {3, true}});
  ASSERT_EQ(grid.size(), 6);
  for (int rank = 0; rank < grid.size(); ++rank) {
    EXPECT_THAT(grid.coordinates_of(rank), ElementsAre(rank / 3, rank % 3));
    EXPECT_EQ(*grid.rank_at(grid.coordinates_of(rank)), rank);
  }
}

TEST(Topology, AGridEndsOrWraps) {
  const Grid grid({{2, false}, {3, true}});
  EXPECT_EQ(*grid.rank_at(std::vector<int>{1, -1}), 5);
  EXPECT_EQ(*grid.rank_at(std::vector<int>{1, 7}), 4);
  EXPECT_FALSE(grid.rank_at(std::vector<int>{2, 0}));
  EXPECT_EQ(grid.neighbor(0, 0, 1), 3);
  EXPECT_EQ(grid.neighbor(0, 0, -1), null_process);
  EXPECT_EQ(grid.neighbor(0, 1, -1), 2);
  EXPECT_EQ(grid.neighbor(0, 1, -2147483648LL), *grid.rank_at(std::vector<int>{0, -2147483647 - 1}));
}

TEST(Topology, AGridWithoutDimensionsIsOnePlace) {
  const Grid grid({});
  EXPECT_EQ(grid.size(), 1);
  EXPECT_TRUE(grid.coordinates_of(0).empty());
}

TEST(Topology, AGraphKnowsTheNeighborsOfEachNode) {
  const Graph graph{{2, 2, 3}, {1, 2, 0}};
  EXPECT_THAT(graph.neighbors(0), ElementsAre(1, 2));
  EXPECT_TRUE(graph.neighbors(1).empty());
  EXPECT_THAT(graph.neighbors(2), ElementsAre(0));
}

}  // namespace
}  // namespace isthmus::topology_test
