// What a member says of the blocks that it has for the others: the run of memory they lie in, and where each
// begins there.
#include "coll/gpu/blocks.hpp"

#include <gtest/gtest.h>

#include <array>

#include "coll_data.hpp"
#include "datatype/make/construct.hpp"

namespace isthmus::coll::blocks_test {
namespace {

using namespace testing_data;

TEST(GpuBlocks, LieInAnyOrderAndSomeAreEmpty) {
  Ints memory(100);
  const std::array counts{3, 0, 5, 2};
  const std::array places{20, 90, 4, 40};
  const GpuBlocks blocks = GpuBlocks::of(OutV{.buffer = memory.data(),
                                              .counts = counts.data(),
                                              .displacements = places.data(),
                                              .type = &int_type()},
                                         4);
  EXPECT_FALSE(blocks.has_gaps);
  EXPECT_EQ(blocks.run.data, reinterpret_cast<std::byte*>(memory.data() + 4));
  EXPECT_EQ(blocks.run.bytes, (42 - 4) * sizeof(int)) << "an empty block adds nothing";
  EXPECT_EQ(blocks.begins[0], 16 * sizeof(int));
  EXPECT_EQ(blocks.begins[2], 0U);
  EXPECT_EQ(blocks.begins[3], 36 * sizeof(int));
  EXPECT_EQ(blocks.each[1].bytes, 0U);
  EXPECT_EQ(blocks.each[3].data, reinterpret_cast<std::byte*>(memory.data() + 40));
  EXPECT_EQ(blocks.each[2].bytes, 5 * sizeof(int));
  EXPECT_EQ(blocks.longest, 5 * sizeof(int));
}

TEST(GpuBlocks, OfNothingAreNowhere) {
  const GpuBlocks blocks = GpuBlocks::of(InV{.counts = Integers::same(0), .type = &int_type()}, 7);
  EXPECT_EQ(blocks.run.bytes, 0U);
  EXPECT_FALSE(blocks.has_gaps);
}

TEST(GpuBlocks, HaveGapsWhereTheirTypeHas) {
  const auto strided = vector_type(2, 1, 3, Datatype::basic(Basic::int32), Form::small);
  ASSERT_TRUE((*strided)->commit());
  Ints memory(40);
  const std::array counts{0, 1};
  const std::array<const Datatype*, 2> types{&int_type(), &**strided};
  const GpuBlocks blocks = GpuBlocks::of(OutW{.buffer = memory.data(),
                                              .counts = counts.data(),
                                              .displacements = Integers::same(8),
                                              .types = types},
                                         2);
  EXPECT_TRUE(blocks.has_gaps);
  const std::array one{1, 0};
  EXPECT_FALSE(GpuBlocks::of(OutW{.buffer = memory.data(),
                                  .counts = one.data(),
                                  .displacements = Integers::same(8),
                                  .types = types},
                             2)
                   .has_gaps)
      << "a block of no elements has none";
}

}  // namespace
}  // namespace isthmus::coll::blocks_test
