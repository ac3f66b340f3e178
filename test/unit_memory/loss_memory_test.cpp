// A process is lost while memory runs out, at the n-th allocation from then on, for every n: nothing is left
// half done.
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <vector>

#include "comm/communicator.hpp"
#include "failing_new.hpp"
#include "loss_ranks.hpp"

namespace isthmus::testing_ranks {
namespace {

using testing_memory::Shortage;

constexpr auto aborted = static_cast<int>(ErrorClass::proc_aborted);
constexpr long most = 1000;

class LossMemoryTest : public testing::TestWithParam<wire::IdlePolicy> {};

TEST_P(LossMemoryTest, WhatNeedsTheDeadEnds) {
  bool is_over = false;
  for (long number = 1; !is_over; ++number) {
    ASSERT_LT(number, most);
    std::atomic<bool> was_hit = false;
    run_with_deaths(3, GetParam(), [&](const Rank& rank) {
      const auto comm = Communicator::make(rank.engine, make_ref<Group>(std::vector<PeerId>{0, 1, 2}),
                                           Engine::first_job_context + 100);
      std::vector<std::byte> small(8), large(1 << 20), word(8);
      if (rank.id() == 1) {
        for (int i = 0; i < 3; ++i)
          rank.send(0, 3, word);
        rank.meet();
        return false;
      }
      if (rank.id() == 2) {
        // Nobody receives these: the collective needs rank 1.
        std::vector<Request*> unwanted;
        for (int tag = 1; tag <= 4; ++tag) {
          const Target target = comm->collective_target(0, tag);
          unwanted.push_back(rank.engine.start_send(target, Payload::of(large.data(), large.size())));
          unwanted.push_back(
              rank.engine.start_send(target, Payload::of(word.data(), word.size()), SendMode::synchronous));
        }
        rank.meet();
        for (Request* send : unwanted)
          rank.finish(send);
        EXPECT_EQ(agree(rank, 6).flag, 2);
        return true;
      }
      std::vector<Request*> ended{rank.start_receive(1, 1, small), rank.start_receive(1, 2, large),
                                  rank.start_send(1, 1, large),
                                  rank.start_send(1, 2, small, SendMode::synchronous)};
      Request* const collective =
          rank.engine.start_receive(comm->collective_context(), 2, 50, Payload::of(word.data(), word.size()));
      rank.meet();
      {
        const Shortage shortage(number);
        rank.engine.wait_for([&] { return rank.engine.has_lost(1); });
        for (Request* request : ended)
          rank.engine.wait(*request);
        rank.engine.wait(*collective);
        rank.engine.wait_for([&] { return !comm->collective_context().has_unexpected(); });
        was_hit = shortage.was_felt();
      }
      for (Request* request : ended)
        EXPECT_EQ(rank.finish(request).error, aborted);
      EXPECT_EQ(rank.finish(collective).error, aborted);
      EXPECT_TRUE(comm->is_broken());
      EXPECT_EQ(rank.engine.lost(), std::vector<PeerId>{1});
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(rank.receive(1, 3, word).error, 0) << "it was sent before";
      EXPECT_EQ(agree(rank, 3).flag, 2);
      return true;
    });
    is_over = !was_hit;
  }
}

/// `victim`: 0 coordinates.
void agree_all(wire::IdlePolicy idle, int victim, bool with_death) {
  bool is_over = false;
  for (long number = 1; !is_over; ++number) {
    ASSERT_LT(number, most);
    std::atomic<bool> was_hit = false;
    run_with_deaths(4, idle, [&](const Rank& rank) {
      if (with_death && rank.id() == 3) return false;
      const auto once = [&](int flag) {
        try {
          return agree(rank, flag);
        } catch (const std::bad_alloc&) {
          return agree(rank, flag);  // nothing has begun
        }
      };
      for (int round = 0; round < 3; ++round) {
        const Shortage shortage(rank.id() == victim && round == 1 ? number : 0);
        EXPECT_EQ(once(rank.id() == round ? ~4 : 7).flag, 3);
        if (rank.id() == victim && round == 1) was_hit = shortage.was_felt();
      }
      return true;
    });
    is_over = !was_hit;
  }
}

TEST_P(LossMemoryTest, AnAgreementEndsAtItsCoordinator) {
  agree_all(GetParam(), 0, false);
}
TEST_P(LossMemoryTest, AnAgreementEndsAtAMember) {
  agree_all(GetParam(), 1, false);
}
TEST_P(LossMemoryTest, AnAgreementEndsWithoutTheDead) {
  agree_all(GetParam(), 0, true);
}

TEST_P(LossMemoryTest, ARevokedCommunicatorEndsAtAllMembers) {
  bool is_over = false;
  for (long number = 1; !is_over; ++number) {
    ASSERT_LT(number, most);
    std::atomic<bool> was_hit = false;
    run_with_deaths(3, GetParam(), [&](const Rank& rank) {
      const auto comm = Communicator::make(rank.engine, make_ref<Group>(std::vector<PeerId>{0, 1, 2}),
                                           Engine::first_job_context + 100);
      std::vector<std::byte> word(8);
      rank.meet();
      {
        // Rank 0 revokes it, and rank 1 hears of it.
        const Shortage shortage(rank.id() != 2 ? number : 0);
        if (rank.id() == 0) {
          try {
            comm->revoke(ErrorClass::revoked);
          } catch (const std::bad_alloc&) {
            comm->revoke(ErrorClass::revoked);
          }
        }
        Status status;
        const auto receive = [&] {
          status = rank.engine.receive(comm->context(), (rank.id() + 1) % 3, 1,
                                       Payload::of(word.data(), word.size()));
        };
        try {
          receive();
        } catch (const std::bad_alloc&) {
          receive();
        }
        EXPECT_EQ(status.error, static_cast<int>(ErrorClass::revoked));
        if (shortage.was_felt()) was_hit = true;
      }
      agree(rank, 1);  // makes progress until all have heard of it
      return true;
    });
    is_over = !was_hit;
  }
}

INSTANTIATE_TEST_SUITE_P(Idle, LossMemoryTest,
                         testing::Values(wire::IdlePolicy::spin, wire::IdlePolicy::sleep),
                         [](const auto& each) {
                           return each.param == wire::IdlePolicy::spin ? "Spin" : "Sleep";
                         });

}  // namespace
}  // namespace isthmus::testing_ranks
