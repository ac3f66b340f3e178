#include "wire/heap.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace isthmus::wire::heap_test {
namespace {

constexpr std::uint64_t page = 4096;

class HeapTest : public testing::Test {
 protected:
  static constexpr std::uint64_t size = 64 * page;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  HeapHeader header{};
  std::unique_ptr<std::byte, Free> memory{static_cast<std::byte*>(std::aligned_alloc(page, size))};
  RegionHeap heap{header, {memory.get(), size}, std::chrono::milliseconds(20)};
};

TEST_F(HeapTest, BlocksAreApartAndAsLargeAsAskedFor) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks;
  for (const std::uint64_t bytes : {1UL, 4096UL, 4097UL, 8192UL, 20000UL, 0UL}) {
    const auto offset = heap.allocate(bytes);
    ASSERT_TRUE(offset);
    ASSERT_EQ(heap.at(*offset, bytes).size(), bytes);
    for (const auto& [other, length] : blocks)
      EXPECT_TRUE(*offset >= other + length || *offset + bytes <= other);
    blocks.emplace_back(*offset, bytes);
  }
}

TEST_F(HeapTest, ReleasedBlocksOfTheSizeClassAreUsedAgain) {
  const auto first = heap.allocate(5000);
  const auto second = heap.allocate(8192);
  ASSERT_TRUE(first && second);
  heap.release(*first, 5000);
  heap.release(*second, 8192);
  const auto third = heap.allocate(6000);
  const auto fourth = heap.allocate(4097);
  ASSERT_TRUE(third && fourth);
  EXPECT_EQ((std::set{*third, *fourth}), (std::set{*first, *second}));
  EXPECT_NE(heap.allocate(4096), *first);
}

TEST_F(HeapTest, SaysThatItIsFullAndHasRoomAgainAfterARelease) {
  std::vector<std::uint64_t> blocks;
  for (;;) {
    const auto offset = heap.allocate(4 * page);
    if (!offset) {
      EXPECT_EQ(offset.error().error_class(), ErrorClass::no_mem);
      break;
    }
    blocks.push_back(*offset);
  }
  EXPECT_EQ(blocks.size(), 16U);
  heap.release(blocks[7], 4 * page);
  EXPECT_EQ(heap.allocate(4 * page), blocks[7]);
  EXPECT_FALSE(heap.allocate(4 * page));
}

TEST_F(HeapTest, RefusesMoreThanItHas) {
  EXPECT_TRUE(heap.allocate(size));
  for (const std::uint64_t bytes : {size + 1, 2 * size, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    const auto offset = heap.allocate(bytes);
    ASSERT_FALSE(offset);
    EXPECT_EQ(offset.error().error_class(), ErrorClass::no_mem);
  }
}

TEST_F(HeapTest, OffsetsThatItCannotHaveReturnedAreIgnored) {
  const auto offset = heap.allocate(page);
  ASSERT_TRUE(offset);
  std::memset(memory.get(), 0x11, size);
  heap.release(*offset + 8, page);
  heap.release(*offset, size + 1);
  heap.release(*offset, ~std::uint64_t{0});
  heap.release(size, page);
  heap.release(~std::uint64_t{0} - 4095, page);
  heap.release(2 * page, page);  // within the heap, and never handed out
  for (auto& first : header.free)
    EXPECT_EQ(first.load(), 0U);
  EXPECT_TRUE(heap.at(size - 1, 2).empty());
  EXPECT_TRUE(heap.at(size + 1, 0).empty());
  EXPECT_TRUE(heap.at(~std::uint64_t{0}, 1).empty());
}

TEST_F(HeapTest, ABrokenFreeListIsDroppedAndTheHeapGoesOn) {
  for (const std::uint64_t bad : {std::uint64_t{2}, std::uint64_t{page}, size + 1, ~std::uint64_t{0}}) {
    header.free[0].store(bad);
    const auto offset = heap.allocate(page);
    ASSERT_TRUE(offset);
    EXPECT_EQ(*offset % page, 0U);
    EXPECT_LE(*offset + page, size);
  }
  const auto block = heap.allocate(page);
  ASSERT_TRUE(block);
  heap.release(*block, page);
  std::memset(memory.get() + *block, 0xff, 8);  // the peer writes to a block that it has given back
  EXPECT_EQ(heap.allocate(page), *block);
  const auto next = heap.allocate(page);
  ASSERT_TRUE(next);
  EXPECT_LE(*next + page, size);
}

TEST_F(HeapTest, ABrokenCounterIsFull) {
  for (const std::uint64_t bad : {std::uint64_t{8}, size, size + page, ~std::uint64_t{0}}) {
    header.used.store(bad);
    EXPECT_FALSE(heap.allocate(page));
  }
}

TEST_F(HeapTest, AnOwnerThatKeepsTheLockIsAnErrorAndNoHang) {
  header.lock.store(1);
  const auto offset = heap.allocate(page);
  ASSERT_FALSE(offset);
  EXPECT_EQ(offset.error().error_class(), ErrorClass::intern);
  heap.release(0, page);
  EXPECT_NE(header.lock.load(), HeapHeader::open);
  header.lock.store(HeapHeader::open);
  EXPECT_TRUE(heap.allocate(page));
}

TEST_F(HeapTest, OnlyOneRankWaitsForAnOwnerThatKeepsTheLock) {
  using namespace std::chrono_literals;
  RegionHeap patient(header, {memory.get(), size}, 1h);
  header.lock.store(HeapHeader::held);
  EXPECT_FALSE(heap.allocate(page));
  EXPECT_FALSE(patient.allocate(page));
  patient.release(0, page);
  EXPECT_EQ(header.lock.load(), HeapHeader::given_up);
  for (const std::uint32_t neither : {3U, 0xffff'ffffU}) {
    header.lock.store(neither);
    EXPECT_FALSE(patient.allocate(page));
  }
}

TEST_F(HeapTest, ThreadsNeverShareABlock) {
  RegionHeap patient(header, {memory.get(), size});
  const auto work = [&](unsigned char mine) {
    for (int round = 0; round < 500; ++round) {
      const std::uint64_t bytes = page << (round % 3);
      const auto offset = patient.allocate(bytes);
      ASSERT_TRUE(offset);
      const auto block = patient.at(*offset, bytes);
      std::memset(block.data(), mine, 64);
      std::this_thread::yield();
      for (std::size_t i = 0; i < 64; ++i)
        ASSERT_EQ(block[i], std::byte{mine});
      patient.release(*offset, bytes);
    }
  };
  std::jthread one(work, 1), two(work, 2), three(work, 3);
}

}  // namespace
}  // namespace isthmus::wire::heap_test
