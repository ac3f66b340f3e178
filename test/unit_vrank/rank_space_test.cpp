#include "vrank/rank_space.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace isthmus::vrank {
namespace {

TEST(RankSpace, OfTwoRanksDoesNotOverlap) {
  for (const std::uint32_t world : {1U, 2U, 3U, 64U, 100U, 4096U, 1U << 20})
    for (const std::uint32_t rank : {0U, 1U, world / 2, world - 1}) {
      if (rank >= world) continue;
      const RankSpace space(rank, world);
      EXPECT_GE(space.program(), RankSpace::begin);
      EXPECT_LT(space.program(), space.thread_end());
      EXPECT_LT(space.thread_end(), space.stack_end());
      EXPECT_LE(space.stack_end() + space.part_bytes(), RankSpace::begin + RankSpace::bytes_of_all);
      EXPECT_EQ(space.program() % 4096, 0U);
      if (rank + 1 < world)
        EXPECT_EQ(space.stack_end() + space.part_bytes(), RankSpace(rank + 1, world).program());
    }
}

TEST(RankSpace, MemoryLiesWhereItIsWanted) {
  const RankSpace space(5, 8);
  const auto memory = map_before(space.stack_end(), 8192, "memory");
  ASSERT_TRUE(memory) << memory.error().text();
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(memory->data()) + memory->size(), space.stack_end());
  std::memset(memory->data(), 1, memory->size());
  EXPECT_EQ(::munmap(memory->data(), memory->size()), 0);
}

TEST(RankSpace, WhatIsThereAlreadyIsNotOverwritten) {
  const RankSpace space(6, 8);
  const auto memory = map_before(space.stack_end(), 8192, "memory");
  ASSERT_TRUE(memory) << memory.error().text();
  (*memory)[4096] = std::byte{7};
  const auto again = map_before(space.stack_end() - 4096, 4096, "memory of somebody");
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().text().find("memory of somebody, 4 KiB below 0x"), std::string::npos)
      << again.error().text();
  EXPECT_EQ((*memory)[4096], std::byte{7});
  EXPECT_EQ(::munmap(memory->data(), memory->size()), 0);
}

}  // namespace
}  // namespace isthmus::vrank
