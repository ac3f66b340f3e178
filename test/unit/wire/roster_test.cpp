#include "wire/roster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace isthmus::wire::roster_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class RosterTest : public testing::Test {
 protected:
  explicit RosterTest(std::uint32_t world = 21) : bytes(world) {}
  void set(std::uint32_t rank, RosterState state) { bytes[rank].store(state); }
  std::vector<std::atomic<RosterState>> bytes;
};

TEST_F(RosterTest, TellsHowManyAreHereAndInWhichOrder) {
  for (const std::uint32_t rank : {20U, 3U, 7U, 8U, 0U})
    set(rank, RosterState::joined);
  set(9, RosterState::met);
  set(10, RosterState::finalized);
  const Roster roster(bytes);
  EXPECT_EQ(roster.world(), 21U);
  EXPECT_EQ(roster.count(), 7U);
  EXPECT_THAT(roster.members(), ElementsAre(0, 3, 7, 8, 9, 10, 20));
  EXPECT_EQ(roster.position(0), 0U);
  EXPECT_EQ(roster.position(20), 6U);
  EXPECT_FALSE(roster.position(1));
  EXPECT_FALSE(roster.position(21));
  EXPECT_EQ(roster.state(9), RosterState::met);
  EXPECT_EQ(roster.state(19), RosterState::absent);
}

TEST_F(RosterTest, IsEmptyWhereNobodyIs) {
  const Roster roster(bytes);
  EXPECT_EQ(roster.count(), 0U);
  EXPECT_THAT(roster.members(), IsEmpty());
}

TEST_F(RosterTest, CountsBytesThatNobodyWritesAsAbsent) {
  for (unsigned value = 0; value < 256; ++value) {
    set(5, static_cast<RosterState>(value));
    EXPECT_EQ(Roster(bytes).count(), value >= 1 && value <= 3 ? 1U : 0U) << value;
  }
}

TEST_F(RosterTest, ToldAgainSaysWhatHasChanged) {
  set(1, RosterState::joined);
  set(16, RosterState::joined);
  Roster roster(bytes);
  EXPECT_THAT(roster.refresh(), IsEmpty());
  set(1, RosterState::finalized);
  set(16, RosterState::absent);
  set(20, RosterState::joined);
  EXPECT_THAT(roster.members(), ElementsAre(1, 16));  // until it is told to look
  EXPECT_THAT(roster.refresh(), ElementsAre(Roster::Change{1, RosterState::joined, RosterState::finalized},
                                            Roster::Change{16, RosterState::joined, RosterState::absent},
                                            Roster::Change{20, RosterState::absent, RosterState::joined}));
  EXPECT_THAT(roster.members(), ElementsAre(1, 20));
  EXPECT_THAT(roster.refresh(), IsEmpty());
}

TEST(RosterOfAMillion, CostsAByteARankAndNamesEachMember) {
  constexpr std::uint32_t world = 1U << 20;
  const auto layout = RegionLayout::make(RegionShape::of(256, world, RingGeometry::for_ranks(256)));
  ASSERT_TRUE(layout);
  EXPECT_LE(layout->blocks - layout->roster, world + 4096U);
  std::vector<std::atomic<RosterState>> bytes(world);
  for (std::uint32_t rank = 4095; rank < world; rank += 4096)
    bytes[rank].store(RosterState::joined);
  Roster roster(bytes);
  ASSERT_EQ(roster.count(), 256U);
  EXPECT_EQ(roster.members().front(), 4095U);
  EXPECT_EQ(roster.members().back(), world - 1);
  EXPECT_EQ(roster.position(8191), 1U);
  for (auto& byte : bytes)
    byte.store(RosterState::joined);
  EXPECT_EQ(roster.refresh().size(), world - 256U);
  EXPECT_EQ(roster.count(), world);
  EXPECT_EQ(roster.members()[world - 1], world - 1);
}

}  // namespace
}  // namespace isthmus::wire::roster_test
