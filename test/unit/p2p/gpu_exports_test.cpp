// What is awaited of descriptors that a peer says it has left in the region's box, and may never have.
#include "p2p/protocol/gpu/exports.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>

#include "wire/gpu.hpp"

namespace isthmus {
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

TEST(GpuExports, NoMoreAreAwaitedThanAPeerCanHaveTold) {
  GpuExports known;
  for (std::uint64_t allocation = 1; allocation <= 3 * wire::told_exports; ++allocation)
    EXPECT_TRUE(known.await(allocation, {7, allocation}, Time{}));
  std::uint32_t awaited = 0;
  for (std::uint64_t allocation = 1; allocation <= 3 * wire::told_exports; ++allocation)
    awaited += known.awaits(allocation) ? 1 : 0;
  EXPECT_EQ(awaited, wire::told_exports);
  std::uint32_t asked = 0;
  known.look_for_awaited(Time{}, patience, [&](const wire::DescriptorTicket&) {
    ++asked;
    return UniqueFd();
  });
  EXPECT_EQ(asked, wire::told_exports);
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
  EXPECT_FALSE(known.awaits_any());
  // Nothing has been given up: the next is awaited as the first was.
  EXPECT_TRUE(known.await(3, {7, 3}, Time{} + 10s));
  known.look_for_awaited(Time{} + 10s, patience, nothing);
  EXPECT_TRUE(known.awaits(3));
}

}  // namespace
}  // namespace isthmus
