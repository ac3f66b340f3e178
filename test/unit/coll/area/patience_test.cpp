// How often members ask what is mostly answered with no.

#include <gtest/gtest.h>

#include <set>

#include "coll/area/patience.hpp"

namespace isthmus::coll::patience_test {
namespace {

/// How many of `calls` calls ask, where the answer is `yes`.
int asked(Patience& patience, int calls, bool yes) {
  int count = 0;
  for (int i = 0; i < calls; ++i) {
    if (!patience.asks()) continue;
    patience.heard(yes);
    ++count;
  }
  return count;
}

TEST(Patience, AProgramWhoseDataIsOnTheHostsIsAskedLessAndLess) {
  Patience patience;
  EXPECT_TRUE(patience.asks());
  patience.heard(false);
  EXPECT_LE(asked(patience, 66, false), 6);
  asked(patience, 1000, false);
  EXPECT_EQ(asked(patience, 67 * 10, false), 10);
}

TEST(Patience, EveryCallAsksAfterAYes) {
  Patience patience;
  asked(patience, 5000, false);
  EXPECT_GT(asked(patience, 67 + 100, true), 99) << "a yes is found out within 67 calls";
  EXPECT_EQ(asked(patience, 100, true), 100);
}

TEST(Patience, CallsInTurnWithOthersThatCannotStillAsk) {
  Patience patience;
  asked(patience, 1, true);
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(patience.asks());
    patience.heard(false);
    ASSERT_TRUE(patience.asks());
    patience.heard(true);
  }
}

TEST(Patience, NoKindOfCallInALoopIsLeftOut) {
  for (int period = 2; period <= 12; ++period) {
    Patience patience;
    std::set<int> kinds;
    for (int call = 0; call < 67 * period + 200; ++call) {
      if (!patience.asks()) continue;
      kinds.insert(call % period);
      patience.heard(false);
    }
    EXPECT_EQ(static_cast<int>(kinds.size()), period);
  }
}

}  // namespace
}  // namespace isthmus::coll::patience_test
