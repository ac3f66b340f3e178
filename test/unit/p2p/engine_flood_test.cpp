// Messages that nobody receives: their memory has a limit, and no program that has to end hangs by it.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "engine_hostile.hpp"
#include "engine_ranks.hpp"

namespace isthmus::engine_flood_test {
namespace {

using testing_hostile::EngineHostile;

constexpr std::uint64_t limit = 64 * 1024;
/// More messages than the limit has room for, and not four times as many.
constexpr int too_many = static_cast<int>(2 * limit / sizeof(UnexpectedMessage));
/// More than four times as many, with some to spare.
constexpr int far_too_many = static_cast<int>(6 * limit / sizeof(UnexpectedMessage)) + 200;
constexpr std::uint32_t cells = 64;

class EngineFlood : public EngineHostile, public testing::WithParamInterface<wire::IdlePolicy> {
 protected:
  void SetUp() override { make({cells, 64 * 1024}, GetParam(), limit); }

  /// Writes numbered messages as long as the engine takes them; how many it took, of `most`.
  int flood(int most, ContextId context = 0, int tag = 1) {
    int written = 0;
    for (int fruitless = 0; written < most && fruitless < 100; ++fruitless) {
      while (written < most && out.has_cell()) {
        say(context, 1, tag, sent_++);
        ++written;
        fruitless = 0;
      }
      progress(1);
    }
    return written;
  }
  Request* look_for(int tag, int& to) {
    return engine->start_receive(*world, 1, tag, Payload::of(&to, sizeof to));
  }
  /// Receives what the flood has brought, in its order.
  void receive_flood(int count) {
    for (int i = 0; i < count; ++i) {
      int got = -1;
      Request* receive = look_for(1, got);
      for (int turns = 0; !receive->complete && turns < 100; ++turns)
        engine->progress();
      ASSERT_TRUE(receive->complete) << i;
      ASSERT_EQ(receive->status.error, 0);
      ASSERT_EQ(got, received_++);
      engine->free(receive);
    }
  }

 private:
  int sent_ = 0, received_ = 0;
};

INSTANTIATE_TEST_SUITE_P(, EngineFlood, testing::Values(wire::IdlePolicy::spin, wire::IdlePolicy::sleep),
                         [](const auto& info) {
                           return info.param == wire::IdlePolicy::spin ? "Spinning" : "Sleeping";
                         });

TEST_P(EngineFlood, APeerWaitsUntilItsMessagesAreReceived) {
  const int taken = flood(far_too_many);
  EXPECT_GE(taken, static_cast<int>(limit / sizeof(UnexpectedMessage)));
  EXPECT_LE(taken, static_cast<int>(limit / sizeof(UnexpectedMessage)) + 2 * static_cast<int>(cells));
  receive_flood(taken);
  EXPECT_EQ(flood(100), 100);
  receive_flood(100);
  EXPECT_EQ(engine->requests().living(), 0U);
}

TEST_P(EngineFlood, WhatIsReceivedMakesRoomForMoreOnTheWay) {
  int left = 3 * far_too_many;
  while (left > 0) {
    const int taken = flood(left);
    ASSERT_GT(taken, 0);
    receive_flood(taken);
    left -= taken;
  }
}

TEST_P(EngineFlood, AReceiveFindsItsMessageBehindTheFlood) {
  int got = 0;
  Request* receive = look_for(2, got);
  ASSERT_EQ(flood(too_many), too_many) << "the receive waits for this peer";
  say(0, 1, 2, 77);
  progress();
  ASSERT_TRUE(receive->complete);
  EXPECT_EQ(got, 77);
  EXPECT_LT(flood(far_too_many), far_too_many) << "now nothing does";
  engine->free(receive);
  receive_flood(too_many);
}

TEST_P(EngineFlood, AReceiveFromAnySourceReadsOnToo) {
  int got = 0;
  Request* receive = engine->start_receive(*world, any_source, 2, Payload::of(&got, sizeof got));
  ASSERT_EQ(flood(too_many), too_many);
  say(0, 1, 2, 77);
  progress();
  EXPECT_TRUE(receive->complete);
  engine->free(receive);
}

TEST_P(EngineFlood, AReceiveFromAnotherRankDoesNot) {
  int got = 0;
  Request* receive = engine->start_receive(*world, 0, 2, Payload::of(&got, sizeof got));
  // A context without names may have any process behind any rank.
  static const std::vector<PeerId> processes{0, 1};
  world->name_sources(processes);
  EXPECT_LT(flood(far_too_many), too_many);
  engine->cancel(*receive);
  engine->free(receive);
}

TEST_P(EngineFlood, TheAnswerToASendIsReadBehindTheFlood) {
  Request* send = start_send(50'000);
  ASSERT_TRUE(send);
  ASSERT_EQ(flood(too_many), too_many);
  write(wire::CellKind::share_done, send->cookie());
  progress();
  EXPECT_TRUE(send->complete);
  EXPECT_EQ(send->status.error, 0);
  engine->free(send);
}

TEST_P(EngineFlood, AProbeFindsItsMessageBehindTheFlood) {
  EXPECT_EQ(engine->probe(*world, 1, 2), nullptr);
  ASSERT_EQ(flood(too_many), too_many);
  say(0, 1, 2, 77);
  EXPECT_NE(engine->probe(*world, 1, 2), nullptr);
  EXPECT_LT(flood(far_too_many), far_too_many);
}

TEST_P(EngineFlood, WhatWaitsBehindMoreThanThereIsMemoryForFails) {
  int got = 0;
  Request* receive = look_for(2, got);
  Request* send = start_send(50'000);
  const int taken = flood(far_too_many);
  EXPECT_LE(taken, static_cast<int>(4 * limit / sizeof(UnexpectedMessage)) + 3 * static_cast<int>(cells) +
                       static_cast<int>(64 * 1024 / sizeof(UnexpectedMessage)));
  ASSERT_TRUE(receive->complete);
  EXPECT_EQ(receive->status.error, static_cast<int>(ErrorClass::no_mem));
  ASSERT_TRUE(send->complete);
  EXPECT_EQ(send->status.error, static_cast<int>(ErrorClass::no_mem));
  EXPECT_EQ(engine->wait_for_message(*world, 1, 2), nullptr) << "nor does a probe wait for ever";
  Request* again = look_for(2, got);
  progress();
  EXPECT_TRUE(again->complete) << "nor another receive";
  engine->free(receive);
  engine->free(send);
  engine->free(again);
  receive_flood(taken);
  EXPECT_EQ(engine->requests().living(), 0U);
}

TEST_P(EngineFlood, MessagesOfAContextThatIsNotOpenHaveTheSameLimitAndAreInItWhenItOpens) {
  const ContextId early = ContextId{2} << 40;
  const int taken = flood(far_too_many, early);
  EXPECT_LT(taken, too_many);
  MatchContext& opened = engine->open_context(early, 2);
  for (int i = 0; i < taken; ++i) {
    int got = -1;
    Request* receive = engine->start_receive(opened, 1, 1, Payload::of(&got, sizeof got));
    progress(2);
    ASSERT_TRUE(receive->complete);
    ASSERT_EQ(got, i);
    engine->free(receive);
  }
  engine->close_context(opened);
}

TEST_P(EngineFlood, EveryCellMayNameAnotherContext) {
  int taken = 0;
  for (; taken < far_too_many; ++taken)
    if (flood(1, (ContextId{2} << 40) + 2 * static_cast<unsigned>(taken)) == 0) break;
  EXPECT_GT(taken, 100);
  EXPECT_LT(taken, too_many) << "memory follows what was sent, and has the same limit";
}

TEST_P(EngineFlood, EarlyMessagesOfSourcesThatTheirContextHasNotAreDropped) {
  const ContextId early = ContextId{2} << 40;
  say(early, 1, 1, 5);
  say(early, 2, 1, 5);
  progress();
  MatchContext& opened = engine->open_context(early, 1);
  EXPECT_FALSE(opened.has_unexpected());
  engine->close_context(opened);
}

TEST_P(EngineFlood, LongMessagesCountWithTheirBytes) {
  int taken = 0;
  for (int i = 0; i < 1000 && out.has_cell() && out.reserve(1024); ++i, ++taken) {
    write(wire::CellKind::eager, wire::EagerHeader{1024, 0, 0}, 1024);
    progress(1);
  }
  EXPECT_GE(taken, static_cast<int>(limit / (1024 + sizeof(UnexpectedMessage))));
  EXPECT_LE(taken, static_cast<int>(limit / 1024) + static_cast<int>(cells) + 1);
}

TEST(EngineFloods, AJobEndsWithMessagesThatWereNeverReceived) {
  using namespace testing_ranks;
  for (const wire::IdlePolicy idle : {wire::IdlePolicy::spin, wire::IdlePolicy::sleep}) {
    Conditions conditions{"", {cells, 64 * 1024}, idle};
    conditions.unexpected_limit = limit;
    run(2, conditions, [](const Rank& rank) {
      if (rank.id() == 0) return;
      for (int i = 0; i < far_too_many; ++i)
        rank.send(0, 1, message(1, 8));
    });
  }
}

TEST(EngineFloods, AThirdRankIsHeardAndTheFloodArrivesWhole) {
  using namespace testing_ranks;
  for (const wire::IdlePolicy idle : {wire::IdlePolicy::spin, wire::IdlePolicy::sleep}) {
    Conditions conditions{"", {cells, 64 * 1024}, idle};
    conditions.unexpected_limit = limit;
    run(3, conditions, [](const Rank& rank) {
      std::vector<std::byte> in(8);
      if (rank.id() == 0) {
        rank.hear(2, 7);  // which speaks when rank 1 has no more room
        for (int i = 0; i < far_too_many; ++i) {
          rank.receive(1, 1, in);
          ASSERT_EQ(first_wrong(in.data(), static_cast<unsigned>(i), 8), 8U) << i;
        }
        return;
      }
      if (rank.id() == 2) {
        rank.hear(1, 7);
        return rank.tell(0, 7);
      }
      std::vector<std::vector<std::byte>> out;
      std::vector<Request*> sends;
      for (int i = 0; i < far_too_many; ++i) {
        out.push_back(message(static_cast<unsigned>(i), 8));
        sends.push_back(rank.start_send(0, 1, out.back()));
      }
      EXPECT_NE(sends.back(), nullptr) << "it waits for room";
      rank.tell(2, 7);
      for (Request* send : sends)
        EXPECT_EQ(rank.finish(send).error, 0);
    });
  }
}

}  // namespace
}  // namespace isthmus::engine_flood_test
