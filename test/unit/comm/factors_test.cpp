#include "comm/factors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace isthmus::factors_test {
namespace {

using testing::ElementsAre;

/// All ways are tried.
std::vector<int> closest_of_all(int product, std::size_t count) {
  std::vector<int> best;
  std::vector<int> factors;
  const std::function<void(int)> extend = [&](int rest) {
    if (factors.size() == count) {
      const auto rank = [](const std::vector<int>& f) {
        return std::pair(f.back() - f.front(), std::vector<int>(f.rbegin(), f.rend()));
      };
      if (rest == 1 && (best.empty() || rank(factors) > rank(best))) best = factors;
      return;
    }
    for (int factor = 1; factor <= rest && (factors.empty() || factor <= factors.back()); ++factor) {
      if (rest % factor != 0) continue;
      factors.push_back(factor);
      extend(rest / factor);
      factors.pop_back();
    }
  };
  extend(product);
  return best;
}

TEST(Factors, AreAsCloseToEachOtherAsTheyCanBe) {
  EXPECT_THAT(closest_factors(7488, 3), ElementsAre(26, 18, 16)) << "not 24 x 24 x 13";
  EXPECT_THAT(closest_factors(10800, 3), ElementsAre(27, 20, 20)) << "not 25 x 24 x 18";
  EXPECT_THAT(closest_factors(98784, 5), ElementsAre(14, 14, 9, 8, 7)) << "not 14 x 12 x 12 x 7 x 7";
  for (int product = 1; product <= 720; ++product)
    for (std::size_t count = 1; count <= 5; ++count)
      ASSERT_EQ(closest_factors(product, count), closest_of_all(product, count))
          << product << " in " << count;
}

TEST(Factors, OfLargeNumbersAndManyAreFound) {
  // Numbers with the most divisors, powers, products of large primes.
  for (const int product : {2095133040, 2141959680, 1396755360, 1 << 30, 1162261467, 2147483647, 2147483646,
                            46337 * 46337, 223092870})
    for (const std::size_t count : {2, 3, 5, 8, 12, 16, 30, 1000}) {
      const std::vector<int> factors = closest_factors(product, count);
      ASSERT_EQ(factors.size(), count);
      EXPECT_TRUE(std::ranges::is_sorted(factors, std::greater{})) << product << " in " << count;
      EXPECT_EQ(std::accumulate(factors.begin(), factors.end(), 1LL, std::multiplies{}), product) << count;
    }
  EXPECT_THAT(closest_factors(2095133040, 2), ElementsAre(46189, 45360)) << "the root is 45772.6";
}

TEST(Factors, OfNoneAreNone) {
  EXPECT_TRUE(closest_factors(1, 0).empty());
  EXPECT_TRUE(closest_factors(12, 0).empty());
}

}  // namespace
}  // namespace isthmus::factors_test
