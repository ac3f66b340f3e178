#include "channel/network/pace.hpp"

#include <gtest/gtest.h>

namespace isthmus::network::pace_test {
namespace {

/// A way with a round trip in microseconds and a rate in GB/s, as `samples` messages see it.
Pace learned(double round_trip, double rate) {
  Pace pace;
  while (pace.is_learning()) {
    const double question = Pace::handling_seconds + round_trip * 1e-6;
    pace.short_took(question);
    pace.piece_took(question + static_cast<double>(Pace::piece) / (rate * 1e9));
  }
  return pace;
}

TEST(Pace, AsksForOnePieceAtATimeUntilItKnowsMore) {
  EXPECT_EQ(Pace().window(), Pace::piece);
  EXPECT_TRUE(Pace().is_learning());
}

TEST(Pace, AsksForWhatTheWayHolds) {
  EXPECT_EQ(learned(8, 7).window(), Pace::piece);           // one host: 56 KB
  EXPECT_EQ(learned(50, 12).window(), 3 * Pace::piece);     // 100 Gb/s: 600 KB
  EXPECT_EQ(learned(1000, 1.2).window(), 5 * Pace::piece);  // 10 Gb/s through a city: 1.2 MB
  EXPECT_EQ(learned(50'000, 1.2).window(), Pace::most_pieces * Pace::piece);
}

TEST(Pace, TakesTheLeastRoundTripAndTheHighestRate) {
  Pace pace = learned(50, 12);
  pace.short_took(1e-3);
  pace.piece_took(1.0);
  EXPECT_EQ(pace.window(), 3 * Pace::piece);
}

TEST(Pace, LearnsNothingFromAPieceThatIsSoonerThanAShortOne) {
  Pace pace;
  pace.short_took(1e-3);
  pace.piece_took(1e-4);
  EXPECT_EQ(pace.window(), Pace::piece);
}

}  // namespace
}  // namespace isthmus::network::pace_test
