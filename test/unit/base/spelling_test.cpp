#include "base/spelling.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace isthmus::spelling_test {
namespace {

TEST(ListOf, NumbersInARowAreRangesFromThreeOn) {
  EXPECT_EQ(list_of({}), "");
  EXPECT_EQ(list_of(std::array{7U}), "7");
  EXPECT_EQ(list_of(std::array{0U, 1U}), "0, 1");
  EXPECT_EQ(list_of(std::array{0U, 1U, 2U}), "0-2");
  EXPECT_EQ(list_of(std::array{0U, 2U, 3U, 5U, 6U, 7U, 9U}), "0, 2, 3, 5-7, 9");
}

TEST(ListOf, ThereIsNoNumberAfterTheLargest) {
  constexpr std::uint32_t most = UINT32_MAX;
  EXPECT_EQ(list_of(std::array{most - 2, most - 1, most}), "4294967293-4294967295");
}

}  // namespace
}  // namespace isthmus::spelling_test
