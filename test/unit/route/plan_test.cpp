#include "route/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "p2p/link/peer_access.hpp"
#include "p2p/protocol/cpu/eager.hpp"
#include "p2p/protocol/cpu/fragment_stream.hpp"
#include "p2p/protocol/cpu/self.hpp"
#include "p2p/protocol/cpu/split_copy.hpp"
#include "p2p/protocol/gpu/offers.hpp"
#include "p2p/protocol/mapping/mapped_memory.hpp"
#include "p2p/protocol/network/peers.hpp"

namespace isthmus::plan_test {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

/// Those of all protocols, in no order.
Probes all_probes() {
  Probes probes;
  for (const Probe& probe :
       {FragmentStreams::probe, PeerAccess::probe_of_pull, NetworkPeers::probe_of_rendezvous,
        EagerMessages::probe_of_eager, SplitCopies::probe, MappedMemory::probe, PeerAccess::probe_of_beside,
        SelfMessages::probe, NetworkPeers::probe_of_eager, EagerMessages::probe_of_inline,
        GpuOffers::probe_of_managed})
    probes.add(probe);
  return probes;
}

Plan plan_of(const PairFacts& facts) {
  return all_probes().plan(facts);
}

PairFacts facts(bool pull, bool push) {
  return {.pull = pull, .push = push, .eager_limit = 16384, .split_from = 65536};
}

/// What is tried with a message of `bytes`, one after the other.
std::vector<Protocol> tried(const PairFacts& of, std::uint64_t bytes) {
  std::vector<Protocol> all;
  const Plan plan = plan_of(of);
  for (const Way& way : plan.serving(bytes))
    all.push_back(way.protocol);
  return all;
}

void expect_step(const Plan& plan, std::uint64_t bytes, Protocol protocol, ChannelId channel) {
  EXPECT_EQ(name_of(plan.step(bytes).protocol), name_of(protocol)) << bytes << " bytes";
  EXPECT_EQ(name_of(plan.step(bytes).channel), name_of(channel)) << bytes << " bytes";
}

TEST(Plan, WithinAProcessEverythingIsOneCopy) {
  PairFacts same = facts(true, true);
  same.same_process = true;
  const Plan plan = plan_of(same);
  EXPECT_EQ(plan.steps().size(), 1U);
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{100'000}, most})
    expect_step(plan, bytes, Protocol::local, ChannelId::self);
}

TEST(Plan, SmallMessagesTravelWithTheirEnvelopeWhateverTheKernelAllows) {
  for (const bool pull : {false, true})
    for (const bool push : {false, true}) {
      const Plan plan = plan_of(facts(pull, push));
      for (const std::uint64_t bytes : {0, 1, 32})
        expect_step(plan, bytes, Protocol::eager_inline, ChannelId::shm);
      for (const std::uint64_t bytes : {33, 16384})
        expect_step(plan, bytes, Protocol::eager, ChannelId::shm);
    }
}

TEST(Plan, LargeOnesGoByWhatTheKernelAllows) {
  for (const bool push : {false, true})
    for (const std::uint64_t bytes : {std::uint64_t{16385}, std::uint64_t{65536}, most})
      expect_step(plan_of(facts(false, push)), bytes, Protocol::stream, ChannelId::shm);
  for (const std::uint64_t bytes : {std::uint64_t{16385}, std::uint64_t{65536}, most})
    expect_step(plan_of(facts(true, false)), bytes, Protocol::pull, ChannelId::cma);
  const Plan both = plan_of(facts(true, true));
  for (const std::uint64_t bytes : {16385, 65535})
    expect_step(both, bytes, Protocol::pull, ChannelId::cma);
  for (const std::uint64_t bytes : {std::uint64_t{65536}, most})
    expect_step(both, bytes, Protocol::split, ChannelId::cma);
}

TEST(Plan, LongMessagesOutOfMappedMemoryAreCopiedWhateverTheKernelAllows) {
  for (const bool pull : {false, true})
    for (const bool push : {false, true}) {
      PairFacts mapped = facts(pull, push);
      mapped.memory = SendersMemory::allocated;
      const Plan plan = plan_of(mapped);
      expect_step(plan, 32, Protocol::eager_inline, ChannelId::shm);
      expect_step(plan, 16384, Protocol::eager, ChannelId::shm);
      for (const std::uint64_t bytes : {std::uint64_t{16385}, std::uint64_t{65536}, most})
        expect_step(plan, bytes, Protocol::mapped, ChannelId::mapping);
    }
}

TEST(Plan, NobodyElseTouchesManagedMemoryWhateverTheKernelAllows) {
  for (const bool beside : {false, true})
    for (const bool allowed : {false, true}) {
      PairFacts managed = facts(allowed, allowed);
      managed.memory = SendersMemory::managed;
      managed.beside = beside;
      expect_step(plan_of(managed), 32, Protocol::eager_inline, ChannelId::shm);
      EXPECT_THAT(tried(managed, 1 << 20), ElementsAre(Protocol::gpu_staged));
      EXPECT_THAT(tried(managed, 20'000), ElementsAre(Protocol::gpu_staged));
    }
}

TEST(Plan, LimitsThatLeaveNoRoomForAStepLeaveItOut) {
  PairFacts all_split = facts(true, true);
  all_split.split_from = 0;
  expect_step(plan_of(all_split), 16385, Protocol::split, ChannelId::cma);
  PairFacts eager_above = facts(true, true);
  eager_above.eager_limit = 1 << 20;
  expect_step(plan_of(eager_above), 1 << 20, Protocol::eager, ChannelId::shm);
  expect_step(plan_of(eager_above), (1 << 20) + 1, Protocol::split, ChannelId::cma);
  PairFacts no_eager = facts(false, false);
  no_eager.eager_limit = 0;
  expect_step(plan_of(no_eager), 32, Protocol::eager_inline, ChannelId::shm);
  expect_step(plan_of(no_eager), 33, Protocol::stream, ChannelId::shm);
  PairFacts only_eager = facts(true, true);
  only_eager.eager_limit = most;
  expect_step(plan_of(only_eager), most, Protocol::eager, ChannelId::shm);
}

TEST(Plan, StepsGrowAndTheLastTakesEverything) {
  for (const bool same : {false, true})
    for (const bool pull : {false, true})
      for (const bool push : {false, true})
        for (const std::uint64_t eager : {std::uint64_t{0}, std::uint64_t{32}, std::uint64_t{16384}, most})
          for (const std::uint64_t split :
               {std::uint64_t{0}, std::uint64_t{33}, std::uint64_t{65536}, most}) {
            PairFacts some = facts(pull, push);
            some.same_process = same;
            some.eager_limit = eager;
            some.split_from = split;
            const Plan plan = plan_of(some);
            ASSERT_FALSE(plan.steps().empty());
            for (std::size_t i = 1; i < plan.steps().size(); ++i)
              EXPECT_LT(plan.steps()[i - 1].up_to, plan.steps()[i].up_to);
            EXPECT_EQ(plan.steps().back().up_to, most);
          }
}

TEST(Plan, WhatFailsGoesTheNextWayThatServesIt) {
  using enum Protocol;
  EXPECT_THAT(tried(facts(true, true), 1 << 20), ElementsAre(split, pull, stream));
  EXPECT_THAT(tried(facts(true, true), 20'000), ElementsAre(pull, stream)) << "too short for both sides";
  EXPECT_THAT(tried(facts(false, true), 1 << 20), ElementsAre(stream));
  PairFacts allocated = facts(true, false);
  allocated.memory = SendersMemory::allocated;
  EXPECT_THAT(tried(allocated, 1 << 20), ElementsAre(mapped, pull, stream));
  EXPECT_THAT(tried(facts(true, true), 8), ElementsAre(eager_inline, eager, pull, stream))
      << "what is offered although it is short";
}

TEST(Plan, RanksOfOneProcessCopyWhatIsLong) {
  PairFacts beside = facts(true, true);
  beside.beside = true;
  expect_step(plan_of(beside), 32, Protocol::eager_inline, ChannelId::shm);
  expect_step(plan_of(beside), most, Protocol::beside, ChannelId::process);
  EXPECT_THAT(tried(beside, 1 << 20), ElementsAre(Protocol::beside, Protocol::stream));
}

TEST(Plan, ToAnotherHostWhatIsLongIsFetched) {
  PairFacts remote = facts(true, true);
  remote.remote = true;
  const Plan plan = plan_of(remote);
  expect_step(plan, 16384, Protocol::network_eager, ChannelId::network);
  expect_step(plan, 16385, Protocol::network_rendezvous, ChannelId::network);
  EXPECT_EQ(plan.steps().back().up_to, most);
}

TEST(Plan, EachProbeSaysWhyItsProtocolDoesNotServe) {
  const Probes probes = all_probes();
  for (const bool pull : {false, true})
    for (const bool push : {false, true})
      for (const bool same : {false, true})
        for (const bool remote : {false, true}) {
          PairFacts some = facts(pull, push);
          some.same_process = same;
          some.remote = remote && !same;
          for (const Probe& probe : probes.all()) {
            const Probed probed = probe.ask(some);
            EXPECT_TRUE(probed || !probed.error().empty()) << name_of(probe.protocol);
          }
        }
}

TEST(Plan, WithoutProbesThereIsNoStep) {
  EXPECT_TRUE(Probes().plan(facts(true, true)).steps().empty());
  const Plan none;
  EXPECT_TRUE(none.steps().empty());
  EXPECT_EQ(none.serving(8).begin(), none.serving(8).end());
}

TEST(Plan, ABetterWayBeginsWhereItServes) {
  const std::array ways{Way{Protocol::split, ChannelId::cma, {.from = 100, .up_to = 200}},
                        Way{Protocol::stream, ChannelId::shm, {}}};
  const Plan plan(ways);
  const std::array wanted{Step{99, Protocol::stream, ChannelId::shm},
                          Step{200, Protocol::split, ChannelId::cma},
                          Step{most, Protocol::stream, ChannelId::shm}};
  EXPECT_THAT(plan.steps(), testing::ElementsAreArray(wanted));
}

TEST(Plan, EqualInputsGiveEqualPlans) {
  const Plan one = plan_of(facts(true, true)), two = plan_of(facts(true, true));
  ASSERT_EQ(one.steps().size(), two.steps().size());
  for (std::size_t i = 0; i < one.steps().size(); ++i) {
    EXPECT_EQ(one.steps()[i].up_to, two.steps()[i].up_to);
    EXPECT_EQ(one.steps()[i].protocol, two.steps()[i].protocol);
    EXPECT_EQ(one.steps()[i].channel, two.steps()[i].channel);
  }
}

}  // namespace
}  // namespace isthmus::plan_test
