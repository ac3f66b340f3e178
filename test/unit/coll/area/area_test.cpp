#include "coll/area/team_area.hpp"

#include <gtest/gtest.h>

#include "launch/job.hpp"

namespace isthmus::coll::area_test {
namespace {

TEST(TeamAreaTest, MemoryThatRank0NamesIsInTheRegionAndAligned) {
  const auto jobs = launch::local_jobs(2, {64, 64 * 1024});
  ASSERT_TRUE(jobs);
  wire::RegionHeap heap = (*jobs)[1].region.heap();
  const auto offset = heap.allocate(8192);
  ASSERT_TRUE(offset);
  const auto memory = memory_named_by_rank_0(heap, *offset, 8192);
  ASSERT_TRUE(memory);
  EXPECT_EQ(*memory, heap.at(*offset, 8192).data());
  for (const std::uint64_t beside : {1, 4, 8, 63})
    EXPECT_FALSE(memory_named_by_rank_0(heap, *offset + beside, 64)) << beside;
  EXPECT_FALSE(memory_named_by_rank_0(heap, ~std::uint64_t{0}, 64));
  EXPECT_FALSE(memory_named_by_rank_0(heap, *offset, std::uint64_t{1} << 60));
}

}  // namespace
}  // namespace isthmus::coll::area_test
