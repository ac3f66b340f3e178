#include "route/gpu/ways.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

namespace isthmus::gpu_ways_test {
namespace {

using enum MemoryKind;

constexpr std::uint64_t mib = 1024 * 1024;

struct Message {
  MemoryKind from = device, to = device;
  GpuLocality locality = GpuLocality::nvlink;
  std::uint64_t bytes = 64 * mib;
  std::uint32_t courier_limit = 0;
  bool is_openable = true;

  [[nodiscard]] GpuPlanKey key() const {
    return {.from = {.kind = from, .has_pages = true},
            .to = {.kind = to, .has_pages = true},
            .locality = locality,
            .courier_limit = courier_limit};
  }
  [[nodiscard]] GpuWays ways() const {
    const GpuPlanKey of = key();
    const Reach reach = is_openable ? Reach() : std::unexpected(Reason{"it is closed"});
    const Plan plan = gpu_plan({.from = of.from,
                                .to = of.to,
                                .locality = of.locality,
                                .push = reach,
                                .pull = reach,
                                .courier_limit = courier_limit});
    return ways_worth_a_trial(plan, of, bytes);
  }
  [[nodiscard]] GpuRoute route() const { return route_of(key(), ways()); }
};

GpuWays all(std::initializer_list<GpuWay> of) {
  GpuWays ways{.assumed = *of.begin()};
  for (const GpuWay way : of)
    ways.add(way);
  return ways;
}

using enum GpuWay;

TEST(GpuWays, BetweenGpusThatAreNearOnlyStraightOnesAreTried) {
  EXPECT_EQ(Message().ways(), all({push, pull}));
  const Message brief{.bytes = 8};
  EXPECT_EQ(brief.ways(), all({push, pull}));
  EXPECT_EQ(brief.route(), GpuRoute::nvlink);
  const Message within{.locality = GpuLocality::same_gpu};
  EXPECT_EQ(within.ways(), all({pull}));
  EXPECT_EQ(within.route(), GpuRoute::same_gpu);
}

TEST(GpuWays, OverPcieMemoryOfTheHostIsTriedToo) {
  EXPECT_EQ(Message{.locality = GpuLocality::pcie}.ways(), all({push, pull, staged, staged_finely}));
  const Message brief{.locality = GpuLocality::pcie, .bytes = mib};
  EXPECT_EQ(brief.ways(), all({push, pull, staged}));
  EXPECT_EQ(brief.route(), GpuRoute::pcie);
}

TEST(GpuWays, WhereACourierMayGoNothingElseIsTried) {
  EXPECT_EQ((Message{.bytes = 8, .courier_limit = 65536}.ways()), all({courier}));
  EXPECT_EQ((Message{.bytes = 65537, .courier_limit = 65536}.ways()), all({push, pull}));
}

TEST(GpuWays, OfMemoryThatNobodyCanOpen) {
  const Message near{.is_openable = false};
  EXPECT_EQ(near.ways(), all({bounce}));
  EXPECT_EQ(near.route(), GpuRoute::nvlink_closed);
  const Message far{.locality = GpuLocality::pcie, .is_openable = false};
  EXPECT_EQ(far.ways(), all({bounce, staged, staged_finely}));
  EXPECT_EQ(far.route(), GpuRoute::pcie_closed);
}

TEST(GpuWays, FromAndToMemoryOfTheHost) {
  const Message up{.from = pinned};
  EXPECT_EQ(up.ways(), all({push, staged, staged_finely}));
  EXPECT_EQ(up.route(), GpuRoute::from_pinned);
  const Message down{.to = pinned};
  EXPECT_EQ(down.ways(), all({pull, staged, staged_finely}));
  EXPECT_EQ(down.route(), GpuRoute::to_pinned);
  const Message brief{.to = pageable, .bytes = 4096};
  EXPECT_EQ(brief.ways(), all({pull, staged}));
  EXPECT_EQ(brief.route(), GpuRoute::to_pageable);
  const Message pages{.from = pageable};
  EXPECT_EQ(pages.ways(), all({staged, staged_finely}));
  EXPECT_EQ(pages.route(), GpuRoute::from_pageable);
}

TEST(GpuWays, WhereOneGpuIsNotSeenNothingStraightIsTried) {
  const Message hidden{.locality = GpuLocality::not_visible};
  EXPECT_FALSE(hidden.ways().has(pull));
  EXPECT_EQ(hidden.route(), GpuRoute::apart);
}

TEST(GpuWays, NoneOfWhatDoesNotGoByAGpu) {
  EXPECT_EQ((Message{.locality = GpuLocality::other_host}.ways().bits), 0);
}

}  // namespace
}  // namespace isthmus::gpu_ways_test
