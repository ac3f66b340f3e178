#include "p2p/protocol/cpu/shares.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <vector>

namespace isthmus::shares_test {
namespace {

class SharesTest : public testing::Test {
 protected:
  static constexpr std::uint64_t size = std::uint64_t{3} * 4096;
  static constexpr std::size_t most = size / sizeof(wire::Share);
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  wire::HeapHeader header{};
  std::unique_ptr<std::byte, Free> memory{static_cast<std::byte*>(std::aligned_alloc(4096, size))};
  wire::RegionHeap heap{header, {memory.get(), size}};
  Shares shares{heap};
};

TEST_F(SharesTest, AsManyAreInUseAtATimeAsTheHeapHoldsEachAtAPlaceOfItsOwn) {
  const Shares at_the_peer(heap);
  std::set<wire::Share*> taken;
  while (wire::Share* const share = shares.take()) {
    EXPECT_TRUE(taken.insert(share).second);
    EXPECT_EQ(at_the_peer.at(shares.place_of(*share)), share);
    ASSERT_LE(taken.size(), most);
  }
  EXPECT_EQ(taken.size(), most);
  EXPECT_EQ(at_the_peer.at(static_cast<std::uint32_t>(most)), nullptr);
  EXPECT_EQ(at_the_peer.at(0xffff'ffff), nullptr);
}

TEST_F(SharesTest, OneIsTakenAgainWhenBothSidesAreDoneWithIt) {
  std::vector<wire::Share*> taken;
  while (wire::Share* const share = shares.take())
    taken.push_back(share);
  wire::Share* const share = taken[5];
  share->claimed.store(7);
  share->done.store(7);
  share->failed.store(1);
  shares.give_back(*share);
  EXPECT_EQ(shares.take(), nullptr) << "the sender may still look at it";
  share->in_use.store(0);
  ASSERT_EQ(shares.take(), share);
  EXPECT_EQ(share->claimed.load(), 0U);
  EXPECT_EQ(share->done.load(), 0U);
  EXPECT_EQ(share->failed.load(), 0U);
  EXPECT_EQ(share->in_use.load(), 1U);
}

}  // namespace
}  // namespace isthmus::shares_test
