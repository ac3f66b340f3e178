#include "coll/gpu/team/table.hpp"

#include <gtest/gtest.h>

#include "gpu/memory/export.hpp"

namespace isthmus::coll::table_test {
namespace {

constexpr std::uint64_t exporter = 77;

Buffer buffer(std::uint64_t allocation, std::uintptr_t base, std::size_t room) {
  auto* const data = reinterpret_cast<std::byte*>(base);
  return {.data = data,
          .bytes = room,
          .kind = MemoryKind::device,
          .allocation = allocation,
          .base = data,
          .room = room};
}

Export offer(const Buffer& buffer) {
  return {.exporter = exporter,
          .allocation = buffer.allocation,
          .base = reinterpret_cast<std::uint64_t>(buffer.base),
          .room = buffer.room,
          .device = {}};
}

/// As the owner of a table names an allocation.
std::uint8_t name(GpuTable& table, const Buffer& buffer) {
  const std::uint8_t index = table.pick(buffer);
  table.name(index, offer(buffer));
  return index;
}

TEST(GpuTable, FindsWhatWasNamed) {
  GpuTable table;
  const Buffer first = buffer(1, 0x1000, 0x1000);
  const Buffer second = buffer(2, 0x4000, 0x1000);
  EXPECT_EQ(table.find(first), std::nullopt);
  const auto one = name(table, first);
  const auto two = name(table, second);
  EXPECT_NE(one, two);
  EXPECT_EQ(table.find(first), one);
  EXPECT_EQ(table.find(second), two);
  EXPECT_EQ(table[two].base, 0x4000U);
}

TEST(GpuTable, AnotherAllocationAtTheSamePlaceTakesItsEntry) {
  GpuTable table;
  const auto old = name(table, buffer(1, 0x1000, 0x1000));
  name(table, buffer(2, 0x9000, 0x1000));
  EXPECT_EQ(name(table, buffer(3, 0x1000, 0x800)), old);
  EXPECT_EQ(table.find(buffer(1, 0x1000, 0x1000)), std::nullopt);
}

TEST(GpuTable, WhatOverlapsIsGone) {
  GpuTable table;
  const auto first = name(table, buffer(1, 0x1000, 0x1000));
  const auto second = name(table, buffer(2, 0x2000, 0x1000));
  name(table, buffer(3, 0x800, 0x2000));
  EXPECT_EQ(table[first].allocation == 1, false);
  EXPECT_EQ(table[second].allocation == 2, false);
}

TEST(GpuTable, TheOneUsedLongestAgoMakesRoom) {
  GpuTable table;
  for (std::uint64_t i = 0; i < GpuTable::size; ++i)
    name(table, buffer(i + 1, 0x10'000 * (i + 1), 0x1000));
  ASSERT_TRUE(table.find(buffer(1, 0x10'000, 0x1000))) << "used last now";
  name(table, buffer(99, 0x990'000, 0x1000));
  EXPECT_TRUE(table.find(buffer(1, 0x10'000, 0x1000)));
  EXPECT_FALSE(table.find(buffer(2, 0x20'000, 0x1000)));
  EXPECT_TRUE(table.find(buffer(99, 0x990'000, 0x1000)));
}

TEST(GpuTable, ForgetsAnAllocationAtItsExportersWord) {
  GpuTable table;
  const auto index = name(table, buffer(5, 0x1000, 0x1000));
  table[index].refused = true;
  table.forget(exporter + 1, 5);
  EXPECT_TRUE(table.find(buffer(5, 0x1000, 0x1000)));
  table.forget(exporter, 5);
  EXPECT_FALSE(table.find(buffer(5, 0x1000, 0x1000)));
  EXPECT_FALSE(table[index].refused);
}

}  // namespace
}  // namespace isthmus::coll::table_test
