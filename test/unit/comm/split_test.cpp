#include "comm/split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace isthmus::split_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Split, OrdersAPartByKeyAndEqualKeysByRank) {
  const std::vector<SplitEntry> table = {{1, 5, 0},         {2, 0, 0}, {1, -3, 0},
                                         {undefined, 0, 0}, {1, 5, 0}, {2, 0, 0}};
  EXPECT_THAT(part_of(table, 1), ElementsAre(2, 0, 4));
  EXPECT_THAT(part_of(table, 2), ElementsAre(1, 5));
  EXPECT_THAT(part_of(table, 7), IsEmpty());
}

TEST(Split, SelectsProcessesOfAGroupInTheOrderOfThePart) {
  const Ref<Group> parent = make_ref<Group>(std::vector<PeerId>{30, 10, 20});
  const std::vector<int> ranks = {2, 0};
  const Ref<Group> part = select(*parent, ranks);
  EXPECT_THAT(std::vector<PeerId>(part->members().begin(), part->members().end()), ElementsAre(20, 30));
}

}  // namespace
}  // namespace isthmus::split_test
