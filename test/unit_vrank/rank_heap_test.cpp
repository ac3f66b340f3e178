#include "vrank/rank_heap.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/system/memory_file.hpp"
#include "vrank/rank_space.hpp"

namespace isthmus::vrank {
namespace {

constexpr std::size_t room = std::size_t{1} << 30;

/// A heap of its own for each test: none goes before the process does.
class RankHeapTest : public testing::Test {
 protected:
  static inline std::uint32_t next = 0;
  const RankSpace space{next++, 64};
  RankHeap heap = *RankHeap::make(space.heap(), room);
};

bool is_filled(const void* memory, std::size_t bytes, int with) {
  const auto* const first = static_cast<const unsigned char*>(memory);
  return std::all_of(first, first + bytes, [&](unsigned char each) { return each == with; });
}

TEST_F(RankHeapTest, EachAllocationHasItsOwnBytes) {
  struct Block {
    void* memory;
    std::size_t bytes;
    int with;
  };
  std::vector<Block> blocks;
  std::mt19937_64 random(3);
  for (int i = 0; i < 60'000; ++i) {
    const std::uint64_t what = random() % 8;
    if (what < 4 || blocks.empty()) {
      const std::size_t bytes = random() % (std::size_t{1} << (1 + random() % 20));
      const std::size_t aligned = std::size_t{16} << (random() % 3 == 0 ? random() % 14 : 0);
      const bool zeros = random() % 4 == 0;
      void* const memory = zeros ? heap.allocate_zeros(bytes) : heap.allocate(bytes, aligned);
      ASSERT_NE(memory, nullptr);
      ASSERT_TRUE(heap.holds(memory));
      ASSERT_GE(heap.usable(memory), bytes);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory) % (zeros ? 16 : aligned), 0U);
      if (zeros) ASSERT_TRUE(is_filled(memory, bytes, 0)) << bytes;
      blocks.push_back({memory, bytes, static_cast<int>(random() % 255) + 1});
      std::memset(memory, blocks.back().with, bytes);
      continue;
    }
    std::swap(blocks[random() % blocks.size()], blocks.back());
    Block& block = blocks.back();
    ASSERT_TRUE(is_filled(block.memory, block.bytes, block.with)) << block.bytes;
    if (what == 4) {
      const std::size_t bytes = random() % (std::size_t{1} << (1 + random() % 21));
      block.memory = heap.resize(block.memory, bytes);
      ASSERT_NE(block.memory, nullptr);
      ASSERT_TRUE(is_filled(block.memory, std::min(bytes, block.bytes), block.with));
      block.bytes = bytes;
      std::memset(block.memory, block.with, bytes);
      continue;
    }
    std::memset(block.memory, 0, block.bytes);
    heap.release(block.memory);
    blocks.pop_back();
  }
  for (const Block& block : blocks)
    EXPECT_TRUE(is_filled(block.memory, block.bytes, block.with)) << block.bytes;
}

TEST_F(RankHeapTest, WhatIsReleasedIsUsedAgain) {
  const std::size_t before = heap.committed();
  for (const std::size_t bytes : {1UL, 100UL, 8192UL, 8193UL, 1UL << 20, 100UL << 20})
    for (int i = 0; i < 100; ++i) {
      void* const memory = heap.allocate(bytes);
      ASSERT_NE(memory, nullptr);
      heap.release(memory);
    }
  EXPECT_LT(heap.committed() - before, std::size_t{200} << 20);
}

TEST_F(RankHeapTest, NeighboursThatAreReleasedBecomeOne) {
  std::array<void*, 16> parts{};
  for (void*& each : parts)
    each = heap.allocate(std::size_t{1} << 20);
  void* const wall = heap.allocate(std::size_t{1} << 20);
  // The others first, and then those between them.
  for (const std::size_t from : {0UL, 1UL})
    for (std::size_t i = from; i < parts.size(); i += 2)
      heap.release(parts[i]);
  EXPECT_EQ(heap.allocate(std::size_t{16} << 20), parts[0]);
  EXPECT_NE(heap.allocate(std::size_t{1} << 20), nullptr);
  heap.release(wall);
}

TEST_F(RankHeapTest, GrowsInPlaceWhereThereIsRoom) {
  void* const memory = heap.allocate(std::size_t{1} << 20);
  EXPECT_EQ(heap.resize(memory, std::size_t{8} << 20), memory);
  EXPECT_EQ(heap.resize(memory, std::size_t{2} << 20), memory);
  void* const other = heap.allocate(std::size_t{6} << 20);
  EXPECT_EQ(other, static_cast<std::byte*>(memory) + (std::size_t{2} << 20)) << "what it has given back";
  EXPECT_NE(heap.resize(memory, std::size_t{4} << 20), memory);
}

TEST_F(RankHeapTest, WhatDoesNotFitIsNull) {
  EXPECT_EQ(heap.allocate(room), nullptr);
  EXPECT_EQ(heap.allocate(~std::size_t{0}), nullptr);
  EXPECT_EQ(heap.allocate_zeros(~std::size_t{0} - 100), nullptr);
  EXPECT_EQ(heap.allocate(1, std::size_t{1} << 40), nullptr);
  void* const memory = heap.allocate(100);
  std::memset(memory, 5, 100);
  EXPECT_EQ(heap.resize(memory, room), nullptr);
  EXPECT_TRUE(is_filled(memory, 100, 5));
  // All of it, and then it goes on.
  std::vector<void*> all;
  while (void* const each = heap.allocate(std::size_t{10} << 20))
    all.push_back(each);
  EXPECT_GT(all.size(), 90U);
  heap.release(all[3]);
  EXPECT_EQ(heap.allocate(std::size_t{10} << 20), all[3]);
}

TEST_F(RankHeapTest, OtherThreadsMayRelease) {
  constexpr std::size_t count = 20'000;
  std::vector<void*> first(count), second(count);
  for (std::size_t i = 0; i < count; ++i) {
    first[i] = heap.allocate(i % 97 == 0 ? 40'000 : 64);
    second[i] = heap.allocate(64);
  }
  const std::size_t before = heap.committed();
  {
    const auto release = [this](const std::vector<void*>& blocks) {
      for (void* each : blocks)
        heap.release_elsewhere(each);
    };
    const std::jthread one([&] { release(first); }), two([&] { release(second); });
    for (int i = 0; i < 10'000; ++i)
      heap.release(heap.allocate(64));
  }
  std::vector<void*> again(2 * count);
  for (void*& each : again)
    each = heap.allocate(64);
  std::ranges::sort(again);
  EXPECT_EQ(std::ranges::adjacent_find(again), again.end()) << "given twice";
  EXPECT_EQ(heap.committed(), before);
}

using RankHeapDeathTest = RankHeapTest;

TEST_F(RankHeapDeathTest, WhatIsNoAllocationIsNotReleased) {
  auto* const memory = static_cast<std::byte*>(heap.allocate(std::size_t{1} << 20));
  EXPECT_DEATH(heap.release(memory + 65536), "released that has not been allocated");
  heap.release(memory);
  EXPECT_DEATH(heap.release(memory), "or is released twice");
}

/// A list in a heap, of nodes of all sizes.
struct Node {
  Node* next;
  std::size_t bytes;
  unsigned char with;
};

Node* make_list(RankHeap& heap) {
  Node* list = nullptr;
  std::vector<void*> gaps;
  for (std::size_t i = 0; i < 3000; ++i) {
    const std::size_t bytes = sizeof(Node) + (i % 50 == 0 ? i * 100 : i % 300);
    auto* const node = static_cast<Node*>(heap.allocate(bytes));
    list = new (node) Node{list, bytes, static_cast<unsigned char>(i)};
    std::memset(node + 1, node->with, bytes - sizeof(Node));
    gaps.push_back(heap.allocate(bytes * 3));
  }
  for (void* each : gaps)
    heap.release(each);
  return list;
}

bool is_whole(const Node* list) {
  std::size_t count = 0;
  for (; list; list = list->next, ++count)
    if (!is_filled(list + 1, list->bytes - sizeof(Node), list->with)) return false;
  return count == 3000;
}

/// What another process does with the heap that has come to it.
int go_on(RankHeap heap, Node* list) {
  if (!is_whole(list)) return 1;
  std::vector<void*> more;
  for (std::size_t i = 0; i < 2000; ++i) {
    more.push_back(heap.allocate(i * 10));
    if (!more.back()) return 2;
    std::memset(more.back(), 0xff, i * 10);
  }
  if (!is_whole(list)) return 3;
  while (list)
    heap.release(std::exchange(list, list->next));
  for (void* each : more)
    heap.release(each);
  return heap.allocate(std::size_t{300} << 20) ? 0 : 4;
}

TEST_F(RankHeapTest, GoesToAnotherProcess) {
  const RankSpace away(next++, 64);
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const UniqueFd file = make_memory_file();
  struct Head {
    std::size_t committed;
    Node* list;
  };
  const pid_t child = ::fork();
  if (child == 0) {  // which has no such heap
    Head head{};
    if (::read(ready[0], &head, sizeof head) != sizeof head) ::_exit(10);
    auto room_there = RankHeap::make_room(away.heap(), head.committed);
    if (!room_there) ::_exit(11);
    std::array<std::uint64_t, 2> piece{};
    off_t at = 0;
    while (::pread(file.get(), piece.data(), sizeof piece, at) == sizeof piece) {
      at += sizeof piece;
      if (::pread(file.get(), reinterpret_cast<void*>(piece[0]), piece[1], at) !=
          static_cast<ssize_t>(piece[1]))
        ::_exit(12);
      at += static_cast<off_t>(piece[1]);
    }
    ::_exit(go_on(*room_there, head.list));
  }
  RankHeap moving = *RankHeap::make(away.heap(), room);
  Node* const list = make_list(moving);
  std::size_t bytes = 0;
  moving.for_each_piece([&](std::span<std::byte> piece) {
    const std::array<std::uint64_t, 2> head{reinterpret_cast<std::uint64_t>(piece.data()), piece.size()};
    ASSERT_EQ(::write(file.get(), head.data(), sizeof head), static_cast<ssize_t>(sizeof head));
    ASSERT_EQ(::write(file.get(), piece.data(), piece.size()), static_cast<ssize_t>(piece.size()));
    bytes += piece.size();
  });
  const Head head{moving.committed(), list};
  ASSERT_EQ(::write(ready[1], &head, sizeof head), static_cast<ssize_t>(sizeof head));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_LT(bytes, std::size_t{24} << 20) << "what is free stays behind";
  EXPECT_TRUE(is_whole(list)) << "the one that has been copied";
  for (const int each : ready)
    ::close(each);
}

}  // namespace
}  // namespace isthmus::vrank
