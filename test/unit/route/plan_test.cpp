#include "route/plan.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace isthmus {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
const Reach refused = std::unexpected(Reason{"no"});

PlanInputs inputs(bool pull, bool push) {
  return {.pull = pull ? Reach{} : refused,
          .push = push ? Reach{} : refused,
          .eager_limit = 16384,
          .split_from = 65536};
}

void expect_step(const Plan& plan, std::uint64_t bytes, Protocol protocol, ChannelId channel) {
  EXPECT_EQ(name_of(plan.step(bytes).protocol), name_of(protocol)) << bytes << " bytes";
  EXPECT_EQ(name_of(plan.step(bytes).channel), name_of(channel)) << bytes << " bytes";
}

TEST(Plan, WithinAProcessEverythingIsOneCopy) {
  PlanInputs same = inputs(true, true);
  same.same_process = true;
  const Plan plan(same);
  EXPECT_EQ(plan.steps().size(), 1U);
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{100'000}, most})
    expect_step(plan, bytes, Protocol::local, ChannelId::self);
}

TEST(Plan, SmallMessagesTravelWithTheirEnvelopeWhateverTheKernelAllows) {
  for (const bool pull : {false, true})
    for (const bool push : {false, true}) {
      const Plan plan(inputs(pull, push));
      for (const std::uint64_t bytes : {0, 1, 32})
        expect_step(plan, bytes, Protocol::eager_inline, ChannelId::shm);
      for (const std::uint64_t bytes : {33, 16384})
        expect_step(plan, bytes, Protocol::eager, ChannelId::shm);
    }
}

TEST(Plan, LargeOnesGoByWhatTheKernelAllows) {
  for (const bool push : {false, true})
    for (const std::uint64_t bytes : {std::uint64_t{16385}, std::uint64_t{65536}, most})
      expect_step(Plan(inputs(false, push)), bytes, Protocol::stream, ChannelId::shm);
  for (const std::uint64_t bytes : {std::uint64_t{16385}, std::uint64_t{65536}, most})
    expect_step(Plan(inputs(true, false)), bytes, Protocol::pull, ChannelId::cma);
  const Plan both(inputs(true, true));
  for (const std::uint64_t bytes : {16385, 65535})
    expect_step(both, bytes, Protocol::pull, ChannelId::cma);
  for (const std::uint64_t bytes : {std::uint64_t{65536}, most})
    expect_step(both, bytes, Protocol::split, ChannelId::cma);
}

TEST(Plan, LongMessagesOutOfMappedMemoryAreCopiedWhateverTheKernelAllows) {
  for (const bool pull : {false, true})
    for (const bool push : {false, true}) {
      PlanInputs mapped = inputs(pull, push);
      mapped.mapped = true;
      const Plan plan(mapped);
      expect_step(plan, 32, Protocol::eager_inline, ChannelId::shm);
      expect_step(plan, 16384, Protocol::eager, ChannelId::shm);
      for (const std::uint64_t bytes : {std::uint64_t{16385}, std::uint64_t{65536}, most})
        expect_step(plan, bytes, Protocol::mapped, ChannelId::mapping);
    }
}

TEST(Plan, LimitsThatLeaveNoRoomForAStepLeaveItOut) {
  PlanInputs all_split = inputs(true, true);
  all_split.split_from = 0;
  expect_step(Plan(all_split), 16385, Protocol::split, ChannelId::cma);
  PlanInputs eager_above = inputs(true, true);
  eager_above.eager_limit = 1 << 20;
  expect_step(Plan(eager_above), 1 << 20, Protocol::eager, ChannelId::shm);
  expect_step(Plan(eager_above), (1 << 20) + 1, Protocol::split, ChannelId::cma);
  PlanInputs no_eager = inputs(false, false);
  no_eager.eager_limit = 0;
  expect_step(Plan(no_eager), 32, Protocol::eager_inline, ChannelId::shm);
  expect_step(Plan(no_eager), 33, Protocol::stream, ChannelId::shm);
  PlanInputs only_eager = inputs(true, true);
  only_eager.eager_limit = most;
  expect_step(Plan(only_eager), most, Protocol::eager, ChannelId::shm);
}

TEST(Plan, StepsGrowAndTheLastTakesEverything) {
  for (const bool same : {false, true})
    for (const bool pull : {false, true})
      for (const bool push : {false, true})
        for (const std::uint64_t eager : {std::uint64_t{0}, std::uint64_t{32}, std::uint64_t{16384}, most})
          for (const std::uint64_t split :
               {std::uint64_t{0}, std::uint64_t{33}, std::uint64_t{65536}, most}) {
            PlanInputs some = inputs(pull, push);
            some.same_process = same;
            some.eager_limit = eager;
            some.split_from = split;
            const Plan plan(some);
            ASSERT_FALSE(plan.steps().empty());
            for (std::size_t i = 1; i < plan.steps().size(); ++i)
              EXPECT_LT(plan.steps()[i - 1].up_to, plan.steps()[i].up_to);
            EXPECT_EQ(plan.steps().back().up_to, most);
          }
}

TEST(Plan, EqualInputsGiveEqualPlans) {
  const Plan one(inputs(true, true)), two(inputs(true, true));
  ASSERT_EQ(one.steps().size(), two.steps().size());
  for (std::size_t i = 0; i < one.steps().size(); ++i) {
    EXPECT_EQ(one.steps()[i].up_to, two.steps()[i].up_to);
    EXPECT_EQ(one.steps()[i].protocol, two.steps()[i].protocol);
    EXPECT_EQ(one.steps()[i].channel, two.steps()[i].channel);
  }
}

}  // namespace
}  // namespace isthmus
