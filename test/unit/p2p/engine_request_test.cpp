// Requests that end otherwise than by waiting: cancelled, freed early, left to MPI_Finalize.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "engine_ranks.hpp"

namespace isthmus::engine_request_test {
namespace {

using namespace testing_ranks;

class EngineRequest : public testing::TestWithParam<Conditions> {};

INSTANTIATE_TEST_SUITE_P(, EngineRequest, testing::ValuesIn(all_conditions()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(EngineRequest, ACancelledReceiveTakesNoMessage) {
  run(2, GetParam(), [&](const Rank& rank) {
    if (rank.id() == 0) {
      rank.hear(1, 9);
      rank.send(1, 1, message(1, 100));
      return;
    }
    for (const int source : {0, any_source}) {
      std::vector<std::byte> unused(100, std::byte{1}), wanted(100);
      Request* cancelled = rank.start_receive(source, 1, unused);
      Request* receive = rank.start_receive(0, 1, wanted);
      rank.engine.cancel(*cancelled);
      EXPECT_TRUE(cancelled->complete);
      EXPECT_TRUE(rank.finish(cancelled).cancelled);
      if (source == 0) {
        rank.engine.cancel(*receive);
        EXPECT_TRUE(rank.finish(receive).cancelled);
        continue;
      }
      rank.tell(0, 9);
      EXPECT_EQ(rank.finish(receive).bytes, 100U);
      EXPECT_EQ(first_wrong(wanted.data(), 1, 100), 100U);
      EXPECT_EQ(unused[0], std::byte{1});
    }
    EXPECT_EQ(rank.engine.requests().living(), 0U);
  });
}

TEST_P(EngineRequest, AMatchedReceiveAndItsSendAreNotCancelled) {
  run(2, GetParam(), [&](const Rank& rank) {
    const std::uint64_t bytes = 250'000;
    if (rank.id() == 0) {
      const auto data = message(1, bytes);
      Request* send = rank.start_send(1, 1, data);
      ASSERT_TRUE(send);
      rank.hear(1, 9);
      rank.engine.cancel(*send);
      EXPECT_FALSE(send->cancelled);
      EXPECT_FALSE(rank.finish(send).cancelled);
    } else {
      std::vector<std::byte> data(bytes);
      Request* receive = rank.start_receive(0, 1, data);
      while (!receive->matched)
        rank.engine.progress();
      rank.tell(0, 9);
      rank.engine.cancel(*receive);
      EXPECT_FALSE(rank.finish(receive).cancelled);
      EXPECT_EQ(first_wrong(data.data(), 1, bytes), bytes);
    }
  });
}

TEST_P(EngineRequest, ASendThatWaitsForRoomCanBeCancelledAndTheOthersArrive) {
  if (GetParam().hosts > 1) GTEST_SKIP() << "a network has room for all, so that no send waits";
  run(2, GetParam(), [&](const Rank& rank) {
    if (rank.id() == 0) {
      std::vector<std::byte> data = message(3, 16);
      std::vector<Request*> waiting;
      std::uint64_t left = 0;
      while (waiting.size() < 3) {
        if (Request* send = rank.start_send(1, 1, data))
          waiting.push_back(send);
        else
          ++left;
      }
      rank.engine.cancel(*waiting[1]);
      EXPECT_TRUE(waiting[1]->complete);
      EXPECT_TRUE(waiting[1]->cancelled);
      rank.meet();
      for (Request* send : waiting)
        rank.finish(send);
      const std::uint64_t arrived = left + 2;
      rank.engine.send(rank.to(1, 2), Payload::of(&arrived, sizeof arrived));
    } else {
      rank.meet();
      std::uint64_t arrived = 0;
      rank.engine.receive(rank.world, 0, 2, Payload::of(&arrived, sizeof arrived));
      for (std::uint64_t i = 0; i < arrived; ++i) {
        std::vector<std::byte> data(16);
        rank.receive(0, 1, data);
        ASSERT_EQ(first_wrong(data.data(), 3, 16), 16U);
      }
      EXPECT_EQ(rank.engine.probe(rank.world, 0, 1), nullptr);
    }
    EXPECT_EQ(rank.engine.requests().living(), 0U);
  });
}

TEST_P(EngineRequest, FreedRequestsGoOnAndReturnToThePool) {
  const std::uint64_t eager = eager_limit(GetParam());
  run(2, GetParam(), [&](const Rank& rank) {
    const std::uint64_t lengths[]{0, 20, eager, eager + 1, 65'536, 200'000};
    std::vector<std::vector<std::byte>> data;
    for (const std::uint64_t bytes : lengths) {
      for (const SendMode mode : {SendMode::standard, SendMode::synchronous}) {
        const int tag = static_cast<int>(data.size());
        if (rank.id() == 0) {
          data.push_back(message(bytes, bytes));
          if (Request* send = rank.start_send(1, tag, data.back(), mode)) rank.engine.free(send);
        } else {
          data.emplace_back(bytes);
          Request* receive = rank.start_receive(0, tag, data.back());
          rank.engine.free(receive);
        }
      }
    }
    rank.engine.wait_for([&] { return rank.engine.requests().living() == 0; });
    rank.meet();
    for (std::size_t i = 0; i < data.size() && rank.id() == 1; ++i)
      EXPECT_EQ(first_wrong(data[i].data(), data[i].size(), data[i].size()), data[i].size());
  });
}

TEST_P(EngineRequest, FinalizeWaitsForFreedSendsAndNotForReceivesThatNobodyServes) {
  std::vector<std::vector<std::byte>> out, in;
  for (const std::uint64_t bytes : {10, 5000, 100'000, 300'000}) {
    out.push_back(message(bytes, bytes));
    in.emplace_back(bytes);
  }
  std::vector<std::byte> never(10);
  run(2, GetParam(), [&](const Rank& rank) {
    if (rank.id() == 0) {
      for (std::size_t i = 0; i < out.size(); ++i)
        if (Request* send = rank.start_send(1, static_cast<int>(i), out[i], SendMode::synchronous))
          rank.engine.free(send);
    } else {
      rank.engine.free(rank.start_receive(0, 77, never));
      for (std::size_t i = 0; i < in.size(); ++i)
        rank.engine.free(rank.start_receive(0, static_cast<int>(i), in[i]));
    }
  });
  if (IsSkipped()) return;
  for (std::size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(first_wrong(in[i].data(), in[i].size(), in[i].size()), in[i].size());
}

TEST_P(EngineRequest, AContextMayGoWhileItsUnreceivedMessagesArrive) {
  run(2, GetParam(), [&](const Rank& rank) {
    constexpr ContextId gone = 40;
    const std::uint64_t bytes = eager_limit(GetParam());
    if (rank.id() == 0) {
      const auto data = message(1, bytes);
      for (int i = 0; i < 20; ++i)
        rank.engine.send({1, gone, 0, i}, Payload::of(data.data(), bytes));
      rank.send(1, 1, data);
    } else {
      MatchContext* context = &rank.engine.open_context(gone, 2);
      while (!rank.engine.probe(*context, 0, 3)) {
      }
      rank.engine.close_context(*context);
      std::vector<std::byte> data(bytes);
      rank.receive(0, 1, data);
      EXPECT_EQ(first_wrong(data.data(), 1, bytes), bytes);
    }
  });
}

TEST_P(EngineRequest, ALongMessageIntoNoBytesEndsAtASenderThatHasHeardNothingBefore) {
  run(2, GetParam(), [&](const Rank& rank) {
    constexpr std::uint64_t bytes = 1 << 20;
    if (rank.id() == 0) {
      EXPECT_EQ(rank.send(1, 1, message(1, bytes)), 0);
    } else {
      std::vector<std::byte> nothing;
      const Status status = rank.receive(0, 1, nothing);
      EXPECT_EQ(status.error, static_cast<int>(ErrorClass::truncate));
      EXPECT_EQ(status.bytes, 0U);
    }
  });
}

TEST_P(EngineRequest, AContextMayGoWithALongMessageOfASenderThatHasHeardNothingBefore) {
  if (GetParam().hosts == 1) GTEST_SKIP() << "on one host it stays the sender's until it is received";
  run(2, GetParam(), [&](const Rank& rank) {
    constexpr ContextId gone = 40;
    const auto data = message(1, 1 << 20);
    if (rank.id() == 0) {
      rank.engine.send({1, gone, 0, 3}, Payload::of(data.data(), data.size()));
    } else {
      MatchContext* context = &rank.engine.open_context(gone, 2);
      while (!rank.engine.probe(*context, 0, 3)) {
      }
      rank.engine.close_context(*context);
    }
  });
}

TEST_P(EngineRequest, AMessageThatNobodyReceivesDoesNotHoldUpTheEnd) {
  run(2, GetParam(), [&](const Rank& rank) {
    if (rank.id() == 0) {
      rank.send(1, 1, message(1, 10));
      rank.send(1, 1, message(1, eager_limit(GetParam())));
    }
  });
}

TEST(EngineContext, NewIdsAreDistinctAcrossRanks) {
  std::array<std::vector<ContextId>, 3> ids;
  run(3, Conditions{""}, [&](const Rank& rank) {
    for (int i = 0; i < 100; ++i)
      ids[static_cast<std::size_t>(rank.id())].push_back(rank.engine.new_context_id());
  });
  std::vector<ContextId> all;
  for (const auto& some : ids)
    for (const ContextId id : some) {
      EXPECT_GT(id, Engine::internal_context + 1);
      all.push_back(id);
      all.push_back(id + 1);
    }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

}  // namespace
}  // namespace isthmus::engine_request_test
