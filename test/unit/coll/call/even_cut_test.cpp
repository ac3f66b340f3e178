// Shares of data for several carriers.

#include <gtest/gtest.h>

#include "coll/call/even_cut.hpp"

namespace isthmus::coll::even_cut_test {
namespace {

TEST(EvenCut, PartsCoverAllAndBeginAtMultiplesOfTheGrain) {
  for (const std::int64_t total : {0, 1, 63, 64, 65, 1000, 4096, 100'003})
    for (const int parts : {1, 2, 3, 8})
      for (const std::int64_t grain : {1, 64, 256}) {
        const EvenCut cut(total, parts, grain);
        std::int64_t end = 0;
        for (int i = 0; i < parts; ++i) {
          EXPECT_EQ(cut.begin(i), end);
          EXPECT_TRUE(cut.begin(i) % grain == 0 || cut.size(i) == 0);
          EXPECT_GE(cut.size(i), 0);
          EXPECT_LE(cut.size(i), (total + parts - 1) / parts + grain - 1);
          end += cut.size(i);
        }
        EXPECT_EQ(end, total);
      }
}

}  // namespace
}  // namespace isthmus::coll::even_cut_test
