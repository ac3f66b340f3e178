// What is awaited of descriptors that a peer says it has left in the region's box, and may never have.
#include "p2p/gpu_memory/exports.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>

#include "wire/gpu.hpp"

namespace isthmus::exports_test {
namespace {

using namespace std::chrono_literals;
using Time = std::chrono::steady_clock::time_point;

constexpr std::chrono::milliseconds patience = 1000ms;
const auto nothing = [](const wire::DescriptorTicket&) { return UniqueFd(); };

TEST(GpuExports, ATicketThatWasNeverLeftIsAwaitedForItsTimeOnce) {
  GpuExports known;
  const Time begin{};
  EXPECT_FALSE(known.awaits_any());
  EXPECT_TRUE(known.await(1, {7, 1}, begin));
  // Those that come later do not begin it anew: else a peer could keep this rank waiting for ever.
  EXPECT_TRUE(known.await(2, {7, 2}, begin + 900ms));
  known.look_for_awaited(begin + 999ms, patience, nothing);
  EXPECT_TRUE(known.awaits(1) && known.awaits(2));
  known.look_for_awaited(begin + 1000ms, patience, nothing);
  EXPECT_FALSE(known.awaits_any());
  // From then on nothing is waited for from this peer.
  EXPECT_FALSE(known.await(3, {7, 3}, begin + 5000ms));
  EXPECT_FALSE(known.awaits_any());
}

TEST(GpuExports, NoneOfTheDescriptorsThatAreKeptIsGivenUpWhileItIsAwaited) {
  GpuExports known;
  constexpr std::size_t most = GpuExports::most_descriptors;
  for (std::uint64_t allocation = 1; allocation <= most; ++allocation)
    EXPECT_TRUE(known.await(allocation, {7, static_cast<std::uint32_t>(allocation)}, Time{}));
  for (std::uint64_t allocation = 1; allocation <= most; ++allocation)
    EXPECT_TRUE(known.awaits(allocation));
  known.look_for_awaited(Time{}, patience, [](const wire::DescriptorTicket&) { return UniqueFd(::dup(0)); });
  EXPECT_FALSE(known.awaits_any());
  for (std::uint64_t allocation = 1; allocation <= most; ++allocation)
    EXPECT_TRUE(known.take_descriptor(allocation));
}

/// Another process had it in its hands when it was told, and puts it back when the memory has been freed.
TEST(GpuExports, TheDescriptorOfMemoryThatIsFreedMeanwhileIsTakenOutOfTheBoxAndClosed) {
  GpuExports known;
  EXPECT_TRUE(known.await(1, {7, 4}, Time{}));
  known.heard_freed(1);
  EXPECT_FALSE(known.awaits(1));
  EXPECT_TRUE(known.awaits_any());
  known.look_for_awaited(Time{} + 1ms, patience, nothing);
  EXPECT_TRUE(known.awaits_any());
  std::size_t taken = 0;
  known.look_for_awaited(Time{} + 2ms, patience, [&](const wire::DescriptorTicket& ticket) {
    taken += ticket == wire::DescriptorTicket{7, 4} ? 1 : 0;
    return UniqueFd(::dup(0));
  });
  EXPECT_EQ(taken, 1U);
  EXPECT_FALSE(known.awaits_any());
  EXPECT_FALSE(known.take_descriptor(1)) << "nobody wants it";
  // One that never comes is awaited no longer for that.
  EXPECT_TRUE(known.await(2, {7, 5}, Time{}));
  known.heard_freed(2);
  known.look_for_awaited(Time{} + patience, patience, nothing);
  EXPECT_FALSE(known.awaits_any());
  EXPECT_TRUE(known.may_wait());
  // And no more of them than are kept.
  for (std::uint64_t allocation = 1; allocation <= 3 * GpuExports::most_descriptors; ++allocation) {
    EXPECT_TRUE(known.await(allocation, {7, static_cast<std::uint32_t>(allocation)}, Time{}));
    known.heard_freed(allocation);
  }
  std::size_t asked = 0;
  known.look_for_awaited(Time{}, patience, [&](const wire::DescriptorTicket&) {
    ++asked;
    return UniqueFd();
  });
  EXPECT_EQ(asked, GpuExports::most_descriptors);
}

TEST(GpuExports, NoMoreAreAwaitedThanAreKept) {
  GpuExports known;
  constexpr std::size_t most = GpuExports::most_descriptors;
  for (std::uint64_t allocation = 1; allocation <= 3 * most; ++allocation)
    EXPECT_TRUE(known.await(allocation, {7, static_cast<std::uint32_t>(allocation)}, Time{}));
  std::size_t asked = 0;
  known.look_for_awaited(Time{}, patience, [&](const wire::DescriptorTicket&) {
    ++asked;
    return UniqueFd();
  });
  EXPECT_EQ(asked, most);
}

TEST(GpuExports, EachIsAwaitedForItsOwnTime) {
  GpuExports known;
  // Where others are always awaited, too, none of which is late.
  for (std::uint32_t i = 1; i <= 40; ++i) {
    const Time now = Time{} + i * 100ms;
    EXPECT_TRUE(known.await(i, {7, i}, now));
    known.look_for_awaited(now + 1ms, patience, [i](const wire::DescriptorTicket& ticket) {
      return ticket.number < i ? UniqueFd(::dup(0)) : UniqueFd();
    });
    EXPECT_TRUE(known.awaits(i));
  }
}

TEST(GpuExports, WhatComesInTimeIsKeptAndTheRestAwaited) {
  GpuExports known;
  EXPECT_TRUE(known.await(1, {7, 1}, Time{}));
  EXPECT_TRUE(known.await(2, {7, 2}, Time{}));
  known.look_for_awaited(Time{} + 1ms, patience, [](const wire::DescriptorTicket& ticket) {
    return ticket.number == 2 ? UniqueFd(::dup(0)) : UniqueFd();
  });
  EXPECT_TRUE(known.awaits(1));
  EXPECT_FALSE(known.awaits(2));
  known.heard_freed(1);
  EXPECT_FALSE(known.awaits(1));
  // Nothing has been given up: the next is awaited as the first was.
  EXPECT_TRUE(known.await(3, {7, 3}, Time{} + 10s));
  known.look_for_awaited(Time{} + 10s, patience, nothing);
  EXPECT_TRUE(known.awaits(3));
}

}  // namespace
}  // namespace isthmus::exports_test
