// What the ranks that live see of one that has ended, and how they agree on something meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "comm/communicator.hpp"
#include "loss_ranks.hpp"

namespace isthmus::testing_ranks::engine_loss_test {
namespace {

using Kind = Agreements::Kind;
using Value = Agreements::Value;

class LossTest : public testing::TestWithParam<wire::IdlePolicy> {
 protected:
  template <class Body>
  static void run(std::uint32_t ranks, const Body& body, std::uint32_t hosts = 1) {
    run_with_deaths(ranks, GetParam(), body, hosts);
  }
};

TEST_P(LossTest, EndsWhatNeedsTheDeadAndNothingElse) {
  run(3, [](const Rank& rank) {
    std::vector<std::byte> small(8), large(1 << 20), word(8);
    if (rank.id() == 1) return false;
    constexpr auto aborted = static_cast<int>(ErrorClass::proc_aborted);
    Request* pending = rank.start_receive(1, 1, small);
    Request* pending_send = rank.start_send(1, 1, large);
    EXPECT_EQ(rank.receive(1, 2, small).error, aborted);
    EXPECT_EQ(rank.finish(pending).error, aborted);
    EXPECT_EQ(rank.finish(pending_send).error, aborted);
    EXPECT_EQ(rank.send(1, 1, small), aborted);
    EXPECT_EQ(rank.send(1, 1, large), aborted);
    EXPECT_EQ(rank.receive(any_source, 4, small).error, aborted);
    rank.world.acknowledge_losses();
    const int other = 2 - rank.id();
    Request* sent = rank.start_send(other, 3, word);
    EXPECT_EQ(rank.receive(any_source, 3, small).error, 0);
    EXPECT_EQ(rank.finish(sent).error, 0);
    EXPECT_EQ(rank.engine.lost(), std::vector<PeerId>{1});
    return true;
  });
}

TEST_P(LossTest, WhatTheDeadHaveSentIsReceived) {
  run(2, [](const Rank& rank) {
    const auto words = message(3, 1000);
    if (rank.id() == 1) {
      EXPECT_EQ(rank.send(0, 1, words), 0);
      return false;
    }
    std::vector<std::byte> heard(words.size());
    rank.engine.wait_for([&] { return rank.engine.has_lost(1); });
    EXPECT_EQ(rank.receive(1, 1, heard).error, 0);
    EXPECT_EQ(heard, words);
    EXPECT_EQ(rank.receive(1, 1, heard).error, static_cast<int>(ErrorClass::proc_aborted));
    return true;
  });
}

TEST_P(LossTest, TheFirstMessageOfTheDeadIsReceivedThoughTheirEndIsNoticedFirst) {
  std::atomic<bool> sent = false;
  run(2, [&](const Rank& rank) {
    const auto words = message(3, 10);
    if (rank.id() == 1) {
      EXPECT_EQ(rank.send(0, 1, words), 0);
      sent = true;
      return false;
    }
    std::vector<std::byte> heard(words.size());
    while (!sent)
      std::this_thread::yield();  // this rank does not look: it has never heard of the ring
    rank.engine.lose(1, "its process has ended", false);
    EXPECT_EQ(rank.receive(1, 1, heard).error, 0);
    EXPECT_EQ(heard, words);
    return true;
  });
}

TEST_P(LossTest, FinalizeWaitsForNobodyWhoIsDead) {
  run(4, [](const Rank& rank) { return rank.id() != 0 && rank.id() != 3; });
}

/// Ranks 0 and 2 are on one host, 1 on another; its network stays open, so that nothing is heard of it there.
TEST_P(LossTest, HearsOfADeathOnAHostToWhichItWasNeverConnected) {
  const auto body = [](const Rank& rank) {
    if (rank.id() == 1) return false;
    std::vector<std::byte> word(8);
    EXPECT_EQ(rank.receive(1, 1, word).error, static_cast<int>(ErrorClass::proc_aborted));
    EXPECT_EQ(rank.engine.lost(), std::vector<PeerId>{1});
    return true;
  };
  run(3, body, 2);
}

TEST_P(LossTest, AWaitThatOthersFeedHearsOfTheDeathToo) {
  std::atomic<bool> over = false;
  run(3, [&](const Rank& rank) {
    std::vector<std::byte> word(8);
    if (rank.id() == 1) return false;
    if (rank.id() == 2) {
      while (!over) {
        rank.send(0, 1, word);
        rank.hear(0, 2);
      }
      return true;
    }
    // Each message is answered in the same wait, so that news never end.
    Request* fed = rank.start_receive(2, 1, word);
    rank.engine.wait_for([&] {
      if (!fed->complete) return false;
      rank.finish(fed);
      over = rank.engine.has_lost(1);
      rank.tell(2, 2);
      if (!over) fed = rank.start_receive(2, 1, word);
      return over.load();
    });
    return true;
  });
}

TEST_P(LossTest, AgreesOnTheAndOfAllFlags) {
  run(4, [](const Rank& rank) {
    for (int round = 0; round < 20; ++round) {
      const Value outcome = agree(rank, ~(1 << ((rank.id() + round) % 5)));
      int expected = -1;
      for (int id = 0; id < 4; ++id)
        expected &= ~(1 << ((id + round) % 5));
      EXPECT_EQ(outcome.flag, expected);
      EXPECT_FALSE(outcome.failed);
    }
    return true;
  });
}

TEST_P(LossTest, AgreesWithoutTheDeadWhoeverTheyAre) {
  for (int victim = 0; victim < 4; ++victim)
    run(4, [&](const Rank& rank) {
      if (rank.id() == victim) return false;
      const Value first = agree(rank, 7, false);
      EXPECT_TRUE(first.failed) << "nobody has acknowledged";
      EXPECT_EQ(first.flag, 7);
      EXPECT_TRUE(rank.engine.has_lost(static_cast<PeerId>(victim)));
      EXPECT_FALSE(agree(rank, 7, true).failed);
      return true;
    });
}

/// The coordinator ends in the middle, after so many messages have left or come: the others hear the same.
TEST_P(LossTest, AgreesOnOneThingThoughTheCoordinatorEndsMeanwhile) {
  for (int looks = 0; looks < 12; ++looks) {
    std::array<std::optional<Value>, 4> heard;
    run(4, [&](const Rank& rank) {
      if (rank.id() == 0) {
        static constexpr std::array<PeerId, 4> all{0, 1, 2, 3};
        rank.engine.agreements().join(Engine::world_context, all, Kind::agree,
                                      {.flag = 6, .failed = false, .words = {0}}, [](const Value&) {});
        for (int i = 0; i < looks; ++i)
          rank.engine.progress();
        return false;
      }
      heard[static_cast<std::size_t>(rank.id())] = agree(rank, rank.id() == 1 ? 3 : 7);
      return true;
    });
    for (const auto& each : {heard[2], heard[3]}) {
      ASSERT_TRUE(each && heard[1]);
      EXPECT_EQ(each->flag, heard[1]->flag);
      EXPECT_EQ(each->failed, heard[1]->failed);
    }
  }
}

TEST_P(LossTest, ARevokedCommunicatorEndsWhatIsUnderWayAtAllMembers) {
  run(3, [](const Rank& rank) {
    const std::vector<PeerId> members{0, 1, 2};
    const ContextId context = Engine::first_job_context + 100;
    rank.engine.close_context(rank.world);
    const auto comm = Communicator::make(rank.engine, make_ref<Group>(std::vector(members)), context);
    std::vector<std::byte> word(8);
    rank.meet();
    if (rank.id() == 2) comm->revoke(ErrorClass::revoked);
    const Status status =
        rank.engine.receive(comm->context(), (rank.id() + 1) % 3, 1, Payload::of(word.data(), word.size()));
    EXPECT_EQ(status.error, static_cast<int>(ErrorClass::revoked));
    EXPECT_TRUE(comm->is_revoked());
    EXPECT_TRUE(comm->is_broken());
    EXPECT_EQ(comm->why_broken().error_class(), ErrorClass::revoked);
    EXPECT_EQ(comm->ranks_in_reach(), 0);
    rank.engine.open_context(Engine::world_context, 3);
    rank.meet();
    return true;
  });
}

/// The sender has not heard of it: what it sends is not received, and ends.
TEST_P(LossTest, WhatComesForAContextThatIsBrokenOffEndsAtItsSender) {
  const auto body = [](const Rank& rank) {
    const ContextId id = Engine::first_job_context + 100;
    MatchContext& context = rank.engine.open_context(id, 2);
    if (rank.id() == 1) context.break_off(ErrorClass::revoked, [](Request&) {});
    rank.meet();
    if (rank.id() == 1) rank.hear(0, 9);
    for (const std::uint64_t bytes : {8, 3000, 1 << 20}) {
      if (rank.id() == 1) break;
      const auto data = message(3, bytes);
      const auto sent =
          rank.engine.start_send({1, id, 0, 5}, Payload::of(data.data(), bytes), SendMode::synchronous);
      EXPECT_EQ(rank.finish(sent).error, 0);
    }
    if (rank.id() == 0) rank.tell(1, 9);
    rank.engine.close_context(context);
    return true;
  };
  run(2, body);
  run(2, body, 2);
}

TEST_P(LossTest, ACommunicatorThatIsMadeAfterwardsKnowsOfTheLossesBefore) {
  run(3, [](const Rank& rank) {
    if (rank.id() == 2) return false;
    rank.engine.wait_for([&] { return rank.engine.has_lost(2); });
    rank.engine.close_context(rank.world);
    const auto comm = Communicator::make(rank.engine, make_ref<Group>(std::vector<PeerId>{0, 1, 2}),
                                         Engine::first_job_context + 100);
    EXPECT_TRUE(comm->is_broken());
    EXPECT_FALSE(comm->is_revoked());
    EXPECT_TRUE(comm->context().is_broken(2, 1));
    EXPECT_FALSE(comm->context().is_broken(1 - rank.id(), 1));
    rank.engine.open_context(Engine::world_context, 3);
    return true;
  });
}

INSTANTIATE_TEST_SUITE_P(Idle, LossTest, testing::Values(wire::IdlePolicy::spin, wire::IdlePolicy::sleep),
                         [](const auto& each) {
                           return each.param == wire::IdlePolicy::spin ? "Spin" : "Sleep";
                         });

}  // namespace
}  // namespace isthmus::testing_ranks::engine_loss_test
