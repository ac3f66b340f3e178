// What ranks tell each other about GPU memory, and how messages are cut into chunks.
#include "wire/gpu.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "p2p/gpu_memory/exports.hpp"

namespace isthmus::gpu_test {
namespace {

TEST(StagingChunk, CoverAMessageWithoutLeavingTheWindow) {
  for (const std::uint32_t window : {wire::least_window, 256U << 10U, (8U << 20U) - 4096U}) {
    for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{262'144}, std::uint64_t{1'000'003},
                                      std::uint64_t{64} << 20U, (std::uint64_t{64} << 20U) + 1}) {
      for (const std::uint64_t position :
           {std::uint64_t{0}, std::uint64_t{4096}, std::uint64_t{window} - 4096}) {
        std::uint64_t offset = 0;
        for (int chunks = 0; offset < bytes; ++chunks) {
          ASSERT_LT(chunks, 100'000);
          const std::uint64_t place = position + offset;
          const std::uint32_t chunk = wire::staging_chunk(bytes, offset, place, window);
          ASSERT_GT(chunk, 0U);
          ASSERT_LE(place % window + chunk, window);
          ASSERT_LE(offset + chunk, bytes);
          offset += chunk;
        }
        EXPECT_EQ(offset, bytes);
      }
    }
  }
}

TEST(StagingChunk, GrowAndShrink) {
  constexpr std::uint32_t window = 8U << 20U;
  constexpr std::uint64_t bytes = std::uint64_t{64} << 20U;
  constexpr std::uint32_t first = 256 * 1024;
  EXPECT_EQ(wire::staging_chunk(bytes, 0, 0, window), first) << "so that the other side begins early";
  EXPECT_EQ(wire::staging_chunk(bytes, bytes / 2, bytes / 2, window), window / 4);
  EXPECT_EQ(wire::staging_chunk(bytes, bytes - first, bytes - first, window), first)
      << "so that the other side has little left to do";
}

TEST(StagingChunk, TheNextMessageBeginsAtAPage) {
  EXPECT_EQ(wire::staging_end(0, 1), 4096U);
  EXPECT_EQ(wire::staging_end(4096, 4096), 8192U);
}

wire::GpuShape shape(std::initializer_list<wire::GpuShape::Level> levels) {
  wire::GpuShape made{};
  for (const auto& level : levels)
    made.levels[made.level_count++] = level;
  return made;
}

TEST(GpuShape, SpansWhatItsStepsReach) {
  EXPECT_EQ(wire::span_of(shape({}), 100), (wire::GpuSpan{0, 100}));
  EXPECT_EQ(wire::span_of(shape({{16, 8}}), 80), (wire::GpuSpan{0, 9 * 16 + 8}));
  EXPECT_EQ(wire::span_of(shape({{-16, 8}}), 80), (wire::GpuSpan{-9 * 16, 8}));
  EXPECT_EQ(wire::span_of(shape({{1000, 40}, {-16, 8}}), 80), (wire::GpuSpan{-4 * 16, 1000 + 8}));
  EXPECT_EQ(wire::span_of(shape({{0, 8}}), 80), (wire::GpuSpan{0, 8})) << "the same block ten times";
}

TEST(GpuShape, IsRefusedWhereNoMessageHasIt) {
  EXPECT_FALSE(wire::span_of(shape({{16, 0}}), 80)) << "no step";
  EXPECT_FALSE(wire::span_of(shape({{16, 81}}), 80)) << "a step of more than there is";
  EXPECT_FALSE(wire::span_of(shape({{16, 9}}), 80)) << "a part of a step";
  EXPECT_FALSE(wire::span_of(shape({{1000, 40}, {16, 16}}), 80)) << "a part of an inner step";
  EXPECT_FALSE(wire::span_of(shape({{INT64_MAX, 8}}), 80)) << "beyond all memory";
  EXPECT_FALSE(wire::span_of(shape({{INT64_MIN, 8}}), 16)) << "before all memory";
  EXPECT_FALSE(wire::span_of(shape({{INT64_MAX / 5, 40}, {INT64_MAX / 5, 20}}), 80)) << "both together";
  EXPECT_FALSE(wire::span_of(shape({{16, 8}}), UINT64_MAX / 8 * 8)) << "more than all memory";
  auto many = shape({{16, 8}});
  many.level_count = 7;
  EXPECT_FALSE(wire::span_of(many, 80)) << "more levels than there is room for";
}

void tell(GpuExports& exports, std::uint64_t allocation) {
  exports.handed(allocation);
  exports.told(allocation);
}

TEST(GpuExports, AreToldInFullOnce) {
  GpuExports exports;
  EXPECT_EQ(exports.number_of(7), std::nullopt);
  EXPECT_EQ(exports.number_of(0), std::nullopt)
      << "which is no allocation, and stands where none has been told";
  const std::uint32_t number = exports.next_number();
  tell(exports, 7);
  EXPECT_EQ(exports.number_of(7), number);
  EXPECT_TRUE(exports.may_be_open(7));
}

TEST(GpuExports, TheOldestIsToldAnew) {
  GpuExports exports;
  for (std::uint64_t allocation = 1; allocation <= wire::told_exports + 1; ++allocation)
    tell(exports, allocation);
  EXPECT_EQ(exports.number_of(1), std::nullopt);
  EXPECT_TRUE(exports.may_be_open(1)) << "the peer may have it open all the same";
  EXPECT_EQ(exports.number_of(wire::told_exports + 1), 0U);
}

TEST(GpuExports, WhatIsFreedIsForgottenOnce) {
  GpuExports exports;
  tell(exports, 7);
  exports.refuse(7);
  EXPECT_TRUE(exports.forget(7)) << "the peer is to be told";
  EXPECT_FALSE(exports.forget(7));
  EXPECT_EQ(exports.number_of(7), std::nullopt);
  EXPECT_FALSE(exports.is_refused(7));
}

TEST(GpuExports, ADescriptorHoldsForItsOwnMessage) {
  GpuExports exports;
  wire::GpuExport what{};
  what.memory.exporter = 5;
  what.memory.allocation = 9;
  what.descriptor = 33;
  exports.heard(3, what);
  EXPECT_EQ(exports.heard(3).memory.allocation, 9U);
  EXPECT_EQ(exports.heard(3).descriptor, -1);
  EXPECT_EQ(exports.heard(4).memory.exporter, 0U) << "nothing has been told";
  EXPECT_EQ(exports.exporter(), 5U);
  exports.cannot_reach(9);
  exports.heard_freed(9);
  EXPECT_EQ(exports.heard(3).memory.exporter, 0U);
  EXPECT_FALSE(exports.is_unreachable(9));
}

TEST(GpuExports, ADescriptorIsClosedWithItsAllocationAndABoundIsSetToTheirNumber) {
  const auto is_open = [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; };
  GpuExports exports;
  UniqueFd file(::memfd_create("gpu", MFD_CLOEXEC));
  const int number = file.get();
  exports.keep(9, std::move(file));
  exports.heard_freed(8);
  EXPECT_TRUE(is_open(number));
  exports.heard_freed(9);
  EXPECT_FALSE(is_open(number));
  EXPECT_FALSE(exports.take_descriptor(9));

  constexpr std::uint64_t last = GpuExports::most_descriptors + 1;
  for (std::uint64_t allocation = 1; allocation <= last; ++allocation)
    exports.keep(allocation, UniqueFd(::memfd_create("gpu", MFD_CLOEXEC)));
  EXPECT_FALSE(exports.take_descriptor(1)) << "the oldest";
  EXPECT_TRUE(exports.take_descriptor(2));
  EXPECT_TRUE(exports.take_descriptor(last));
}

}  // namespace
}  // namespace isthmus::gpu_test
