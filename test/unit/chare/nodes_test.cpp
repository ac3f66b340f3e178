// Who is of one node, who leads it, and who hears what is told to all leaders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "chare/nodes.hpp"

namespace isthmus::chare::nodes_test {
namespace {

using testing::ElementsAre;

TEST(ChareNodes, AreNumberedByTheirLowestRanks) {
  const std::vector<std::uint32_t> keys{9, 9, 4, 9, 4, 7};
  const Nodes nodes(keys, 6);
  EXPECT_EQ(nodes.size(), 3U);
  EXPECT_THAT(nodes.numbers(), ElementsAre(0, 0, 1, 0, 1, 2));
  EXPECT_EQ(nodes.leader(0), 0U);
  EXPECT_EQ(nodes.leader(1), 2U);
  EXPECT_EQ(nodes.leader(2), 5U);
  EXPECT_TRUE(nodes.leads(2));
  EXPECT_FALSE(nodes.leads(4));
  // Those without chares are of none.
  const Nodes fewer(keys, 2);
  EXPECT_EQ(fewer.size(), 1U);
  EXPECT_FALSE(fewer.leads(2));
}

TEST(ChareNodes, EachLeaderHearsOnceWhatAnyProcessTellsAllOfThem) {
  for (const std::vector<std::uint32_t>& keys :
       std::vector<std::vector<std::uint32_t>>{{0},
                                               {0, 0, 0},
                                               {0, 1},
                                               {0, 0, 1, 1},
                                               {0, 1, 2, 0, 1, 2, 3},
                                               {5, 4, 3, 2, 1, 0, 0, 1, 2, 3, 4, 5}}) {
    const Nodes nodes(keys, static_cast<std::uint32_t>(keys.size()));
    for (std::uint32_t root = 0; root < keys.size(); ++root) {
      std::map<std::uint32_t, int> heard;
      std::vector<std::uint32_t> telling{root};
      while (!telling.empty()) {
        const std::uint32_t rank = telling.back();
        telling.pop_back();
        ASSERT_EQ(++heard[rank], 1) << rank << " of root " << root;
        const auto below = nodes.below(rank, root);
        ASSERT_LE(below.size(), 2U);
        telling.insert(telling.end(), below.begin(), below.end());
      }
      for (std::uint32_t rank = 0; rank < keys.size(); ++rank)
        EXPECT_EQ(heard.contains(rank), nodes.leads(rank) || rank == root) << rank << " of root " << root;
    }
  }
}

}  // namespace
}  // namespace isthmus::chare::nodes_test
