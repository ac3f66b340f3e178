#include "channel/shm/shared_place.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace isthmus::shared_place_test {
namespace {

constexpr wire::RingGeometry geometry{16, 16 * 1024};
constexpr std::uint32_t size = wire::place_bytes(geometry);

class SharedPlaceTest : public testing::Test {
 protected:
  std::vector<std::byte> ring = std::vector<std::byte>(wire::place_offset(geometry) + size);
  SharedPlace lower{ring, geometry, true};
  SharedPlace upper{ring, geometry, false};

  /// Of `bytes`, in pieces of at most `most`.
  void carry(SharedPlace& from, SharedPlace& to, std::uint32_t bytes, std::uint32_t most) {
    ASSERT_TRUE(from.takes(bytes));
    EXPECT_FALSE(to.takes(bytes));
    const std::byte* const written = from.give();
    EXPECT_FALSE(from.takes(bytes)) << "it is the other's to read";
    ASSERT_TRUE(to.begin(bytes));
    for (std::uint32_t at = 0; at < bytes; at += most) {
      const std::uint32_t piece = std::min(most, bytes - at);
      EXPECT_FALSE(to.takes(bytes)) << "it has not been read yet";
      EXPECT_EQ(to.piece(piece), written + at);
      EXPECT_EQ(to.piece(bytes - at + 1), nullptr);
      to.was_read(piece);
    }
    EXPECT_TRUE(to.takes(bytes));
  }
};

TEST_F(SharedPlaceTest, LiesBehindTheByteRing) {
  EXPECT_EQ(lower.give(), ring.data() + sizeof(wire::RingHeader) + geometry.cells * sizeof(wire::Cell) +
                              geometry.data_bytes);
}

TEST_F(SharedPlaceTest, GoesToAndFroWithMessagesOfAllLengths) {
  for (std::uint32_t bytes = 1; bytes <= size; bytes = bytes < size && 2 * bytes > size ? size : 2 * bytes) {
    carry(lower, upper, bytes, size);
    carry(upper, lower, bytes, 1000);
  }
}

TEST_F(SharedPlaceTest, TakesNothingLongerThanItIs) {
  EXPECT_TRUE(lower.takes(size));
  EXPECT_FALSE(lower.takes(size + 1));
  EXPECT_FALSE(lower.takes(~std::uint64_t{0}));
}

TEST_F(SharedPlaceTest, IsNobodysWhereItsRingIsNotOpen) {
  SharedPlace none;
  EXPECT_FALSE(none.takes(0));
  EXPECT_FALSE(none.begin(8));
  EXPECT_EQ(none.piece(8), nullptr);
}

TEST_F(SharedPlaceTest, WhatNoHonestPeerSaysChangesNothing) {
  EXPECT_FALSE(lower.begin(8)) << "it is the reader's own";
  EXPECT_EQ(lower.piece(8), nullptr);
  EXPECT_TRUE(lower.takes(8));
  EXPECT_FALSE(upper.begin(size + 1ULL));
  EXPECT_FALSE(upper.begin(~std::uint64_t{0}));
  EXPECT_FALSE(upper.begin(1ULL << 32U | 8U));
  EXPECT_EQ(upper.piece(1), nullptr) << "of no message";
  ASSERT_TRUE(upper.begin(100));
  EXPECT_EQ(upper.piece(101), nullptr);
  EXPECT_EQ(upper.piece(0), nullptr) << "would never come to an end";
  ASSERT_TRUE(upper.piece(60));
  upper.was_read(60);
  EXPECT_FALSE(upper.begin(100)) << "the last one has not ended";
  EXPECT_EQ(upper.piece(41), nullptr);
  EXPECT_FALSE(upper.takes(1));
  ASSERT_TRUE(upper.piece(40));
  upper.was_read(40);
  EXPECT_TRUE(upper.takes(1));
}

}  // namespace
}  // namespace isthmus::shared_place_test
