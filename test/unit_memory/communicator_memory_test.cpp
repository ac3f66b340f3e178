// A communicator is made while memory runs out, at the n-th allocation, for every n: it is there, or nothing
// of it, and what came before it is there in either case.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <vector>

#include "comm/communicator.hpp"
#include "failing_new.hpp"
#include "loss_ranks.hpp"

namespace isthmus::testing_ranks {
namespace {

using testing_memory::Shortage;

constexpr long most = 1000;

/// Of a source that there is, and of one that there is not: in both matching spaces.
void send_early(const Rank& rank, ContextId id) {
  for (const ContextId context : {id, id + 1})
    for (const int source : {7, 0, 7, 0}) {
      std::array<std::byte, 8> word{std::byte(context - id + 5)};
      rank.engine.send({1, context, source, 3}, Payload::of(word.data(), word.size()));
    }
}

TEST(CommunicatorMemoryTest, WhatCameBeforeItIsThere) {
  bool is_over = false;
  for (long number = 1; !is_over && !HasFailure(); ++number) {
    ASSERT_LT(number, most);
    SCOPED_TRACE(number);
    std::atomic<bool> was_hit = false;
    run_with_deaths(2, wire::IdlePolicy::sleep, [&](const Rank& rank) {
      std::vector<std::byte> word(8);
      const auto group = make_ref<Group>(std::vector<PeerId>{0, 1});
      if (rank.id() == 0) {
        const ContextId made = rank.engine.new_context_id();
        send_early(rank, made);
        std::memcpy(word.data(), &made, sizeof made);
        rank.send(1, 4, word);
        return true;
      }
      EXPECT_EQ(rank.receive(0, 4, word).error, 0);
      ContextId id = 0;
      std::memcpy(&id, word.data(), sizeof id);
      Ref<Communicator> comm;
      {
        const Shortage shortage(number);
        try {
          comm = Communicator::make(rank.engine, group, id);
        } catch (const std::bad_alloc&) {
          EXPECT_TRUE(shortage.was_felt());
        }
        was_hit = shortage.was_felt();
      }
      if (!comm) {
        EXPECT_TRUE(rank.engine.check({id, 0})) << "a part of it is left";
        comm = Communicator::make(rank.engine, group, id);
      }
      for (MatchContext* context : {&comm->context(), &comm->collective_context()})
        for (int i = 0; i < 2; ++i) {
          if (!rank.engine.find_unexpected(*context, 0, 3)) {
            ADD_FAILURE() << "message " << i << " of " << context->id() - id << " is lost";
            continue;
          }
          EXPECT_EQ(rank.engine.receive(*context, 0, 3, Payload::of(word.data(), word.size())).error, 0);
          EXPECT_EQ(word.front(), std::byte(context->id() - id + 5));
        }
      EXPECT_FALSE(comm->context().has_unexpected() || comm->collective_context().has_unexpected());
      return true;
    });
    is_over = !was_hit;
  }
}

}  // namespace
}  // namespace isthmus::testing_ranks
