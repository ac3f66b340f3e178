// Sends that are cancelled (MPI 5.0, section 3.8.4), over every way that a message goes.
#include <gtest/gtest.h>

#include <vector>

#include "engine_ranks.hpp"

namespace isthmus::engine_cancel_test {
namespace {

using namespace testing_ranks;

class EngineCancel : public testing::TestWithParam<Conditions> {};

INSTANTIATE_TEST_SUITE_P(Ways, EngineCancel, testing::ValuesIn(all_conditions()),
                         [](const auto& instance) { return instance.param.name; });

Status cancel(const Rank& rank, Request* request) {
  rank.engine.cancel(*request);
  return rank.finish(request);
}

// The receiver is in the engine meanwhile, which between hosts it has to be.
TEST_P(EngineCancel, WhatNobodyReceivesIsTakenBackAndTheNextMessageIsTheFirst) {
  run(2, GetParam(), [&](const Rank& rank) {
    for (const std::uint64_t bytes : sizes(GetParam())) {
      if (rank.id() == 0) {
        const auto gone = message(1, bytes), next = message(2, bytes);
        EXPECT_TRUE(cancel(rank, rank.start_send(1, 5, gone, SendMode::synchronous)).cancelled) << bytes;
        rank.tell(1, 4);
        EXPECT_EQ(rank.send(1, 5, next), 0);
        rank.hear(1, 6);
      } else {
        std::vector<std::byte> in(bytes);
        rank.hear(0, 4);
        EXPECT_EQ(rank.receive(0, 5, in).bytes, bytes);
        EXPECT_EQ(first_wrong(in.data(), 2, bytes), bytes);
        rank.tell(0, 6);
      }
    }
  });
}

TEST_P(EngineCancel, ASendIsEitherCancelledOrReceived) {
  run(2, GetParam(), [&](const Rank& rank) {
    for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{1000}, std::uint64_t{100'000}})
      for (int round = 0; round < 30; ++round) {
        if (rank.id() == 0) {
          const auto data = message(7, bytes);
          Request* send = rank.start_send(1, 5, data, SendMode::synchronous);
          for (int i = 0; i < round % 5; ++i)
            rank.engine.progress();
          const bool cancelled = cancel(rank, send).cancelled;
          rank.tell(1, cancelled ? 1 : 0);
          rank.hear(1, 6);
        } else {
          std::vector<std::byte> in(bytes), nothing;
          Request* receive = rank.start_receive(0, 5, in);
          Request* told = rank.engine.start_receive(rank.world, 0, 1, Payload::of(nothing.data(), 0));
          Request* other = rank.engine.start_receive(rank.world, 0, 0, Payload::of(nothing.data(), 0));
          rank.engine.wait_for([&] { return told->complete || other->complete; });
          const bool cancelled = told->complete;
          if (cancelled) rank.engine.cancel(*receive);
          rank.engine.cancel(cancelled ? *other : *told);
          EXPECT_EQ(rank.finish(receive).cancelled, cancelled);
          rank.finish(told);
          rank.finish(other);
          if (!cancelled) EXPECT_EQ(first_wrong(in.data(), 7, bytes), bytes);
          rank.tell(0, 6);
        }
      }
  });
}

}  // namespace
}  // namespace isthmus::engine_cancel_test
