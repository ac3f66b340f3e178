#include "route/gpu/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "route/gpu/pairs.hpp"
#include "route/gpu/plan_cache.hpp"

namespace isthmus::gpu_plan_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using enum MemoryKind;

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
const Reach refused = std::unexpected(Reason{"equal process ids"});

GpuPlanInputs inputs(MemoryKind from, MemoryKind to, GpuLocality locality = GpuLocality::nvlink) {
  return {.from = {.kind = from, .has_pages = true},
          .to = {.kind = to, .has_pages = true},
          .locality = locality,
          .host_eager_limit = 16384};
}

/// A step without its channel.
struct GpuStep {
  std::uint64_t up_to;
  Protocol way;
  friend bool operator==(const GpuStep&, const GpuStep&) = default;
};

std::vector<GpuStep> steps_of(std::span<const Step> steps) {
  std::vector<GpuStep> all;
  for (const Step& step : steps)
    all.push_back({step.up_to, step.protocol});
  return all;
}

std::vector<GpuStep> steps(const GpuPlanInputs& of) {
  return steps_of(gpu_plan(of).steps());
}

/// What is tried with a message of `bytes`, one after the other.
std::vector<Protocol> tried(const GpuPlanInputs& of, std::uint64_t bytes) {
  std::vector<Protocol> all;
  const Plan plan = gpu_plan(of);
  for (const Way& way : plan.serving(bytes))
    all.push_back(way.protocol);
  return all;
}

const GpuStep push{most, Protocol::gpu_push};
const GpuStep pull{most, Protocol::gpu_pull};
const GpuStep staged{most, Protocol::gpu_staged};
const GpuStep bounce{most, Protocol::gpu_bounce};
const GpuStep eager{16384, Protocol::eager};

TEST(GpuPlan, BetweenGpusTheSendersWrites) {
  for (const MemoryKind from : {device, vmm, pool})
    for (const MemoryKind to : {device, vmm, pool})
      for (const GpuLocality locality : {GpuLocality::nvlink, GpuLocality::pcie, GpuLocality::unknown})
        EXPECT_THAT(steps(inputs(from, to, locality)), ElementsAre(push));
}

TEST(GpuPlan, OnOneGpuTheReceiverReads) {
  EXPECT_THAT(steps(inputs(device, vmm, GpuLocality::same_gpu)), ElementsAre(pull));
}

TEST(GpuPlan, ShortOnesAreReadWhereThatWasMeasuredToBeFaster) {
  GpuPlanInputs tuned = inputs(device, device);
  tuned.push_from = 4096;
  EXPECT_THAT(steps(tuned), ElementsAre(GpuStep{4095, Protocol::gpu_pull}, push));
  EXPECT_EQ(gpu_plan(tuned).step(4095).protocol, Protocol::gpu_pull);
  EXPECT_EQ(gpu_plan(tuned).step(4096).protocol, Protocol::gpu_push);
}

TEST(GpuPlan, OneDirectionServesWhereTheOtherIsRefused) {
  GpuPlanInputs one = inputs(device, vmm);
  one.push = refused;
  EXPECT_THAT(steps(one), ElementsAre(pull));
  one.pull = refused;
  EXPECT_THAT(steps(one), ElementsAre(bounce)) << "never through the host while the GPUs reach each other";
  one.bounce = refused;
  EXPECT_THAT(steps(one), ElementsAre(staged));
  one.push = {};
  EXPECT_THAT(steps(one), ElementsAre(push));
}

TEST(GpuPlan, ManagedMemoryIsReachedByItsOwnProcessAlone) {
  EXPECT_THAT(steps(inputs(device, managed)), ElementsAre(pull)) << "the receiver opens the sender's memory";
  EXPECT_THAT(steps(inputs(managed, device)), ElementsAre(push));
  EXPECT_THAT(steps(inputs(managed, managed)), ElementsAre(bounce));
  EXPECT_THAT(steps(inputs(managed, pinned)), ElementsAre(bounce));
}

TEST(GpuPlan, WhatNobodyCanOpenBouncesWhereNothingElseIsChosen) {
  for (const GpuLocality locality :
       {GpuLocality::same_gpu, GpuLocality::nvlink, GpuLocality::pcie, GpuLocality::unknown})
    EXPECT_THAT(steps(inputs(managed, managed, locality)), ElementsAre(bounce));
  for (const GpuLocality locality : {GpuLocality::no_peer_access, GpuLocality::not_visible})
    EXPECT_THAT(steps(inputs(managed, managed, locality)), ElementsAre(staged));
  for (const GpuPathSetting path : {GpuPathSetting::push, GpuPathSetting::pull, GpuPathSetting::staged}) {
    GpuPlanInputs chosen = inputs(managed, managed);
    chosen.path = path;
    EXPECT_THAT(steps(chosen), ElementsAre(staged));
  }
  GpuPlanInputs without = inputs(managed, managed);
  without.bounce = std::unexpected(Reason{"ISTHMUS_GPU_BOUNCE is 0"});
  EXPECT_THAT(steps(without), ElementsAre(staged));
  EXPECT_EQ(why_not(without, Protocol::gpu_bounce), "ISTHMUS_GPU_BOUNCE is 0");
  GpuPlanInputs host = inputs(managed, managed);
  host.to.has_pages = false;
  EXPECT_THAT(steps(host), ElementsAre(staged));
}

TEST(GpuPlan, GapsAreFilledByKernelsOrProcessorsAndNotThroughWindows) {
  GpuPlanInputs gaps = inputs(device, device);
  gaps.to.has_gaps = true;
  EXPECT_THAT(tried(gaps, 8), ElementsAre(Protocol::gpu_pull, Protocol::gpu_staged));
  EXPECT_EQ(why_not(gaps, Protocol::gpu_push), "a message with gaps is no one run of memory");
  gaps.from.has_gaps = true;
  gaps.to.has_gaps = false;
  gaps.courier_limit = 65536;
  EXPECT_THAT(tried(gaps, 8),
              ElementsAre(Protocol::gpu_push, Protocol::gpu_pull, Protocol::gpu_bounce, Protocol::gpu_staged))
      << "its sender packs it for a window";
  EXPECT_FALSE(why_not(gaps, Protocol::gpu_courier).empty());
  GpuPlanInputs host = inputs(device, pageable);
  host.direct_limit = 4;
  host.to.has_gaps = true;
  EXPECT_THAT(tried(host, 8), ElementsAre(Protocol::gpu_pull, Protocol::gpu_staged));
  host.from = {.kind = pinned};
  host.to = {.kind = device, .has_pages = true, .has_gaps = true};
  EXPECT_THAT(tried(host, 100'000), ElementsAre()) << "it comes as any message of the host's";
}

TEST(GpuPlan, MemoryOfAThirdProcessIsNotHandedOn) {
  GpuPlanInputs third = inputs(device, device);
  third.to.is_foreign = true;
  EXPECT_THAT(tried(third, 8), ElementsAre(Protocol::gpu_pull, Protocol::gpu_bounce, Protocol::gpu_staged));
  EXPECT_EQ(why_not(third, Protocol::gpu_push), "it is another process's memory");
}

TEST(GpuPlan, ManagedMemoryWhosePagesTheHostHasCountsAsTheHosts) {
  GpuPlanInputs host = inputs(managed, device);
  host.from.has_pages = false;
  EXPECT_THAT(steps(host), ElementsAre(eager, staged));
}

TEST(GpuPlan, PinnedMemoryGoesStraightAndPageableMemoryThroughShared) {
  EXPECT_THAT(steps(inputs(device, pinned)), ElementsAre(pull));
  EXPECT_THAT(steps(inputs(pinned, device)), ElementsAre(eager, push));
  EXPECT_THAT(steps(inputs(device, pageable)),
              ElementsAre(GpuStep{default_gpu_direct_limit, Protocol::gpu_pull}, staged));
  EXPECT_THAT(steps(inputs(pageable, device)), ElementsAre(eager, staged));
  GpuPlanInputs many = inputs(device, pageable);
  many.many_under_way = true;
  EXPECT_THAT(steps(many), ElementsAre(staged)) << "where one kernel copies many of them";
  GpuPlanInputs tuned = inputs(vmm, pageable);
  tuned.direct_limit = 100;
  EXPECT_THAT(steps(tuned), ElementsAre(GpuStep{100, Protocol::gpu_pull}, staged));
}

TEST(GpuPlan, WhatIsCopiedToTheHostFirstTakesItsWays) {
  GpuPlanInputs tuned = inputs(device, device);
  tuned.gpu_eager_limit = 64;
  EXPECT_THAT(steps(tuned), ElementsAre(GpuStep{64, Protocol::eager}, push));
}

TEST(GpuPlan, GpusThatDoNotReachEachOtherGoThroughTheHostAndSayWhy) {
  const GpuPlanInputs apart = inputs(device, device, GpuLocality::no_peer_access);
  EXPECT_THAT(steps(apart), ElementsAre(staged));
  EXPECT_FALSE(why_not(apart, Protocol::gpu_push).empty());
  EXPECT_FALSE(why_not(apart, Protocol::gpu_pull).empty());
}

TEST(GpuPlan, AGpuThatTheReceiverDoesNotSeeMayWriteToItsOwn) {
  GpuPlanInputs unseen = inputs(device, device, GpuLocality::not_visible);
  EXPECT_THAT(steps(unseen), ElementsAre(push)) << "until the sender has refused that";
  EXPECT_FALSE(why_not(unseen, Protocol::gpu_pull).empty());
  unseen.push = refused;
  EXPECT_THAT(steps(unseen), ElementsAre(staged));
}

TEST(GpuPlan, BetweenAGpuAndMemoryOfTheHostNoWayBetweenGpusIsNeeded) {
  EXPECT_THAT(steps(inputs(device, pinned, GpuLocality::no_peer_access)), ElementsAre(pull));
  EXPECT_THAT(steps(inputs(pinned, device, GpuLocality::no_peer_access)), ElementsAre(eager, push));
}

TEST(GpuPlan, ShortMessagesGoByCourierWhereGpusAreJoinedByNvlinkAndOneIsUnderWay) {
  GpuPlanInputs one = inputs(device, vmm);
  one.courier_limit = 65536;
  const GpuStep by_courier{65536, Protocol::gpu_courier};
  EXPECT_THAT(steps(one), ElementsAre(by_courier, push));
  EXPECT_THAT(tried(one, 8), ElementsAre(Protocol::gpu_courier, Protocol::gpu_push, Protocol::gpu_pull,
                                         Protocol::gpu_bounce, Protocol::gpu_staged))
      << "what a courier cannot take goes as if there were none";
  EXPECT_THAT(steps(inputs(device, vmm)), ElementsAre(push));
  EXPECT_FALSE(why_not(inputs(device, vmm), Protocol::gpu_courier).empty());
  for (const GpuLocality locality : {GpuLocality::same_gpu, GpuLocality::pcie, GpuLocality::unknown}) {
    one.locality = locality;
    EXPECT_FALSE(why_not(one, Protocol::gpu_courier).empty());
  }
  one.locality = GpuLocality::nvlink;
  one.pull = refused;
  EXPECT_THAT(steps(one), ElementsAre(push)) << "a courier reads";
  one.pull = {};
  one.path = GpuPathSetting::push;
  EXPECT_THAT(steps(one), ElementsAre(push));
  one.path = GpuPathSetting::automatic;
  one.to.kind = pinned;
  EXPECT_THAT(steps(one), ElementsAre(pull));
}

TEST(GpuPlan, RanksOfOneProcessReadWhatIsExportable) {
  GpuPlanInputs one = inputs(device, device);
  one.one_process = true;
  EXPECT_THAT(steps(one), ElementsAre(pull));
  one.from.kind = managed;
  one.to.kind = pageable;
  EXPECT_THAT(steps(one), ElementsAre(staged));
}

TEST(GpuPlan, RanksOfOneProcessAreNotSparedWhatHasBeenSetNorWhatHoldsTheProcessorUp) {
  GpuPlanInputs one = inputs(device, pageable);
  one.one_process = true;
  EXPECT_EQ(tried(one, 8).front(), Protocol::gpu_pull);
  EXPECT_EQ(tried(one, 1 << 20).front(), Protocol::gpu_staged);
  one.to.kind = device;
  one.path = GpuPathSetting::staged;
  EXPECT_EQ(tried(one, 8).front(), Protocol::gpu_staged);
}

TEST(GpuPlan, WhatFailsGoesTheNextWayThatServesIt) {
  EXPECT_THAT(tried(inputs(device, device), 8), ElementsAre(Protocol::gpu_push, Protocol::gpu_pull,
                                                            Protocol::gpu_bounce, Protocol::gpu_staged));
  GpuPlanInputs chosen = inputs(device, device);
  chosen.path = GpuPathSetting::push;
  EXPECT_THAT(tried(chosen, 8), ElementsAre(Protocol::gpu_push, Protocol::gpu_pull, Protocol::gpu_staged));
}

TEST(GpuPlanCache, KeepsThePlanOfAKeyUntilSomethingThatAProbeSeesChanges) {
  GpuPlanCache cache;
  int made = 0;
  const auto find = [&](const GpuPlanKey& key) {
    return cache
        .find(key,
              [&] {
                ++made;
                return gpu_plan({.from = key.from, .to = key.to, .locality = key.locality});
              })
        .plan;
  };
  GpuPlanKey key{.from = {.kind = device}, .to = {.kind = vmm}, .locality = GpuLocality::nvlink};
  EXPECT_EQ(find(key).steps().back().protocol, Protocol::gpu_push);
  EXPECT_EQ(find(key).steps().back().protocol, Protocol::gpu_push);
  EXPECT_EQ(made, 1);
  key.is_push_refused = true;
  static_cast<void>(find(key));
  EXPECT_EQ(made, 2);
  for (std::uint32_t limit = 0; limit < 100; ++limit) {
    key.courier_limit = limit;
    EXPECT_FALSE(find(key).steps().empty());
  }
  const int before = made;
  static_cast<void>(find(key));
  EXPECT_EQ(made, before) << "the latest are kept";
}

TEST(GpuPlan, TheSettingWinsWhereItsWayWorks) {
  GpuPlanInputs chosen = inputs(device, device);
  chosen.path = GpuPathSetting::pull;
  EXPECT_THAT(steps(chosen), ElementsAre(pull));
  chosen.path = GpuPathSetting::staged;
  EXPECT_THAT(steps(chosen), ElementsAre(staged));
  chosen.path = GpuPathSetting::push;
  chosen.locality = GpuLocality::same_gpu;
  EXPECT_THAT(steps(chosen), ElementsAre(push));
  chosen.push = refused;
  EXPECT_THAT(steps(chosen), ElementsAre(pull)) << "what does not work is left out";
}

TEST(GpuPlan, ToAnotherHostMessagesOfGpusGoInChunks) {
  GpuPlanInputs away = inputs(device, device, GpuLocality::other_host);
  away.chunks_from = 1000;
  away.host_eager_limit = 100;
  EXPECT_THAT(steps(away),
              ElementsAre(GpuStep{100, Protocol::network_eager}, GpuStep{most, Protocol::network_chunks}));
  away.from.kind = pinned;
  EXPECT_THAT(steps(away),
              ElementsAre(GpuStep{100, Protocol::network_eager}, GpuStep{999, Protocol::network_rendezvous},
                          GpuStep{most, Protocol::network_chunks}))
      << "the receiver has it cut";
  away.to.kind = pageable;
  EXPECT_THAT(steps(away), ElementsAre(GpuStep{100, Protocol::network_eager},
                                       GpuStep{most, Protocol::network_rendezvous}));
}

TEST(GpuPlan, ANetworkThatTakesGpuMemoryIsHandedWhatItMay) {
  GpuPlanInputs away = inputs(device, device, GpuLocality::other_host);
  away.chunks_from = 1000;
  away.host_eager_limit = 100;
  away.network = {};
  const GpuStep taken{most, Protocol::network_gpu};
  EXPECT_THAT(steps(away), ElementsAre(GpuStep{100, Protocol::network_eager}, taken));
  EXPECT_TRUE(why_not(away, Protocol::network_gpu).empty());
  away.to.kind = pageable;
  EXPECT_EQ(steps(away).back(), taken);
  away.from.kind = managed;
  EXPECT_EQ(steps(away).back().way, Protocol::network_chunks);
  away.to.kind = device;
  EXPECT_EQ(steps(away).back().way, Protocol::network_chunks);
  away.from.kind = pageable;
  EXPECT_EQ(steps(away).back(), taken) << "the receiver hands its memory to the network";
  EXPECT_THAT(tried(away, 1000),
              ElementsAre(Protocol::network_gpu, Protocol::network_chunks, Protocol::network_rendezvous));
}

TEST(GpuPlan, TheAdapterIsForTwoGpusMemoriesAndAskedForByName) {
  GpuPlanInputs here = inputs(device, vmm);
  here.network = {};
  EXPECT_EQ(steps(here).back().way, Protocol::gpu_push);
  here.path = GpuPathSetting::network;
  EXPECT_THAT(steps(here), ElementsAre(GpuStep{most, Protocol::gpu_loopback}));
  here.to.kind = pinned;
  EXPECT_THAT(steps(here), ElementsAre(staged));
  here.to.kind = managed;
  EXPECT_THAT(steps(here), ElementsAre(staged));
  here.to.kind = device;
  here.network = std::unexpected(Reason{"this UCX has no CUDA"});
  EXPECT_THAT(steps(here), ElementsAre(staged));
  EXPECT_EQ(why_not(here, Protocol::gpu_loopback), "this UCX has no CUDA");
}

TEST(GpuPlan, HasASizeRangeForEveryMessage) {
  for (const MemoryKind from : {device, vmm, pool, managed, pinned, pageable})
    for (const MemoryKind to : {device, vmm, pool, managed, pinned, pageable})
      for (const bool can_push : {false, true})
        for (const bool can_pull : {false, true}) {
          GpuPlanInputs of = inputs(from, to);
          if (can_push != can_pull) of.bounce = refused;
          if (!can_push) of.push = refused;
          if (!can_pull) of.pull = refused;
          const auto all = steps(of);
          ASSERT_FALSE(all.empty());
          EXPECT_EQ(all.back().up_to, most);
          for (const GpuStep& step : all)
            EXPECT_TRUE(why_not(of, step.way).empty()) << why_not(of, step.way);
        }
}

TEST(GpuPairs, PutsPairsWithOnePlanTogetherAndTellsWhatIsRefused) {
  const auto all = gpu_pairs([](GpuPlanEnd from, GpuPlanEnd to) {
    GpuPlanInputs of = inputs(from.kind, to.kind);
    if (from.kind == device) of.pull = refused;
    if (to.kind == device) of.push = refused;
    return std::pair(gpu_plan(of), of);
  });
  std::size_t pairs = 0;
  bool has_reason = false;
  for (const GpuPairs& each : all) {
    pairs += each.from.size() * each.to.size();
    for (const GpuPairs::Refusal& refusal : each.refusals)
      has_reason = has_reason || refusal.why == "equal process ids";
  }
  EXPECT_EQ(pairs, 6U * 6U - 2U * 2U) << "all but those between two hosts' memories";
  EXPECT_TRUE(has_reason);
  const auto both = std::ranges::find_if(all, [](const GpuPairs& each) {
    return each.from == std::vector{vmm, pool} && each.to == std::vector{vmm, pool};
  });
  ASSERT_NE(both, all.end());
  EXPECT_THAT(steps_of(both->steps), ElementsAre(push));
  EXPECT_TRUE(both->refusals.empty());
}

}  // namespace
}  // namespace isthmus::gpu_plan_test
