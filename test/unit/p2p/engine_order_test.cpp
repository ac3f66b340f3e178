// Matching as the standard promises it (MPI 5.0, section 3.5), over every path.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

#include "engine_ranks.hpp"

namespace isthmus::engine_order_test {
namespace {

using namespace testing_ranks;

class EngineOrder : public testing::TestWithParam<Conditions> {};

INSTANTIATE_TEST_SUITE_P(, EngineOrder, testing::ValuesIn(all_conditions()),
                         [](const auto& info) { return std::string(info.param.name); });

/// A length that walks through inline, eager and rendezvous messages.
std::uint64_t length(const Conditions& conditions, int i) {
  const std::uint64_t eager = eager_limit(conditions);
  const std::uint64_t some[]{0, 9, 32, 33, 200, eager - 1, eager, eager + 1, 3000, eager / 2, 1, 70'000};
  return some[static_cast<std::size_t>(i) % std::size(some)];
}

std::uint64_t longest(const Conditions& conditions) {
  return std::max<std::uint64_t>(eager_limit(conditions) + 1, 70'000);
}

TEST_P(EngineOrder, MessagesOfOnePairDoNotOvertakeWhateverTheirWay) {
  constexpr int messages = 60;
  run(2, GetParam(), [&](const Rank& rank) {
    if (rank.id() == 0) {
      std::vector<std::vector<std::byte>> data;
      std::vector<Request*> sends;
      for (int i = 0; i < messages; ++i)
        data.push_back(message(static_cast<unsigned>(i), length(GetParam(), i)));
      for (int i = 0; i < messages; ++i)
        sends.push_back(rank.start_send(1, 5, data[static_cast<std::size_t>(i)],
                                        i % 7 == 3 ? SendMode::synchronous : SendMode::standard));
      for (Request* send : sends)
        rank.finish(send);
    } else {
      for (int i = 0; i < messages; ++i) {
        std::vector<std::byte> data(longest(GetParam()));
        const Status status = rank.receive(i % 2 != 0 ? 0 : any_source, i % 3 != 0 ? 5 : any_tag, data);
        ASSERT_EQ(status.bytes, length(GetParam(), i)) << "message " << i;
        EXPECT_EQ(first_wrong(data.data(), static_cast<unsigned>(i), status.bytes), status.bytes);
      }
    }
  });
}

/// In bursts, so that some of them go through what the last answer has left and others do not.
TEST_P(EngineOrder, MessagesAndTheirAnswersDoNotOvertakeWhateverTheirLengths) {
  constexpr int rounds = 200;
  run(2, GetParam(), [&](const Rank& rank) {
    std::mt19937 random(12);
    int number = 0;
    for (int round = 0; round < rounds; ++round) {
      const bool is_sender = round % 2 == rank.id();
      std::vector<std::vector<std::byte>> data(1 + random() % 3);
      std::vector<Request*> sends;
      for (auto& content : data) {
        const std::uint64_t bytes = random() % 4 != 0 ? 1000 + random() % 20'000 : length(GetParam(), number);
        const auto seed = static_cast<unsigned>(number++);
        if (is_sender) {
          content = message(seed, bytes);
          sends.push_back(rank.start_send(1 - rank.id(), 5, content));
          continue;
        }
        content.resize(bytes + 1);
        const Status status = rank.receive(1 - rank.id(), 5, content);
        ASSERT_EQ(status.bytes, bytes) << "round " << round;
        ASSERT_EQ(first_wrong(content.data(), seed, bytes), bytes) << "round " << round;
      }
      for (Request* send : sends)
        rank.finish(send);
    }
  });
}

TEST_P(EngineOrder, SpecificAndWildcardReceivesMatchInTheOrderOfPosting) {
  constexpr int messages = 48;
  run(2, GetParam(), [&](const Rank& rank) {
    if (rank.id() == 0) {
      rank.hear(1, 9);
      for (int i = 0; i < messages; ++i)
        rank.send(1, 5, message(static_cast<unsigned>(i), length(GetParam(), i)));
    } else {
      std::vector<std::vector<std::byte>> data(messages, std::vector<std::byte>(longest(GetParam())));
      std::vector<Request*> receives;
      for (int i = 0; i < messages; ++i)
        receives.push_back(rank.start_receive(i % 3 == 0 ? any_source : 0, i % 4 == 0 ? any_tag : 5,
                                              data[static_cast<std::size_t>(i)]));
      rank.tell(0, 9);
      for (int i = 0; i < messages; ++i) {
        const Status status = rank.finish(receives[static_cast<std::size_t>(i)]);
        ASSERT_EQ(status.bytes, length(GetParam(), i)) << "receive " << i;
        EXPECT_EQ(
            first_wrong(data[static_cast<std::size_t>(i)].data(), static_cast<unsigned>(i), status.bytes),
            status.bytes);
      }
    }
  });
}

TEST_P(EngineOrder, AWildcardTakesFromEverybodyInTheOrderOfEach) {
  constexpr int ranks = 4, messages = 30;
  run(ranks, GetParam(), [&](const Rank& rank) {
    if (rank.id() != 0) {
      for (int i = 0; i < messages; ++i)
        rank.send(0, i,
                  message(static_cast<unsigned>(100 * rank.id() + i), length(GetParam(), i + rank.id())));
      return;
    }
    std::map<int, int> next;
    for (int i = 0; i < (ranks - 1) * messages; ++i) {
      std::vector<std::byte> data(longest(GetParam()));
      const Status status = rank.receive(any_source, any_tag, data);
      ASSERT_GT(status.source, 0);
      ASSERT_LT(status.source, ranks);
      EXPECT_EQ(status.tag, next[status.source]++);
      EXPECT_EQ(status.bytes, length(GetParam(), status.tag + status.source));
      EXPECT_EQ(
          first_wrong(data.data(), static_cast<unsigned>(100 * status.source + status.tag), status.bytes),
          status.bytes);
    }
  });
}

TEST_P(EngineOrder, TagsPickMessagesOutOfOrder) {
  constexpr int messages = 40;
  run(2, GetParam(), [&](const Rank& rank) {
    if (rank.id() == 0) {
      std::vector<std::vector<std::byte>> data;
      std::vector<Request*> sends;
      for (int i = 0; i < messages; ++i)
        data.push_back(message(static_cast<unsigned>(i), length(GetParam(), i)));
      for (int i = 0; i < messages; ++i)
        sends.push_back(rank.start_send(1, i, data[static_cast<std::size_t>(i)]));
      for (Request* send : sends)
        rank.finish(send);
    } else {
      for (int i = messages; i-- > 0;) {
        std::vector<std::byte> data(length(GetParam(), i));
        const Status status = rank.receive(0, i, data);
        EXPECT_EQ(status.bytes, data.size());
        EXPECT_EQ(status.error, 0);
        EXPECT_EQ(first_wrong(data.data(), static_cast<unsigned>(i), data.size()), data.size());
      }
    }
  });
}

TEST_P(EngineOrder, ContextsDoNotMix) {
  constexpr ContextId one = 100, two = 102;
  run(2, GetParam(), [&](const Rank& rank) {
    if (rank.id() == 0) {
      std::deque<std::vector<std::byte>> data;
      std::vector<Request*> sends;
      for (int i = 0; i < 20; ++i)
        for (const ContextId context : {one, two}) {
          const auto& next =
              data.emplace_back(message(context + static_cast<unsigned>(i), length(GetParam(), i)));
          sends.push_back(rank.engine.start_send({1, context, 0, 5}, Payload::of(next.data(), next.size())));
        }
      for (Request* send : sends)
        rank.finish(send);
    } else {
      // Some have come by now, before their context is known here.
      for (int i = 0; i < 20; ++i)
        rank.engine.progress();
      MatchContext& second = rank.engine.open_context(two, 2);
      MatchContext& first = rank.engine.open_context(one, 2);
      for (int i = 0; i < 20; ++i)
        for (MatchContext* context : {&second, &first}) {
          std::vector<std::byte> data(length(GetParam(), i));
          const Status status = rank.engine.receive(*context, 0, 5, Payload::of(data.data(), data.size()));
          EXPECT_EQ(status.bytes, data.size());
          EXPECT_EQ(first_wrong(data.data(), context->id() + static_cast<unsigned>(i), data.size()),
                    data.size());
        }
      rank.engine.close_context(first);
      rank.engine.close_context(second);
    }
  });
}

TEST_P(EngineOrder, ProbedMessagesAreReceivedWholeWhileTheirPiecesArrive) {
  constexpr int messages = 60;
  run(2, GetParam(), [&](const Rank& rank) {
    if (rank.id() == 0) {
      for (int i = 0; i < messages; ++i) {
        rank.send(1, i, message(static_cast<unsigned>(i), length(GetParam(), i)));
        rank.send(1, 1000, message(0, 8));
      }
      return;
    }
    for (int i = 0; i < messages; ++i) {
      Status status;
      Request* receive = nullptr;
      std::vector<std::byte> data;
      if (i % 2 == 0) {
        const UnexpectedMessage* found = nullptr;
        while (!(found = rank.engine.probe(rank.world, any_source, i))) {
        }
        status = Engine::status_of(*found);
        data.resize(status.bytes);
        receive = rank.start_receive(status.source, status.tag, data);
      } else {
        UnexpectedMessage* taken = nullptr;
        while (!(taken = rank.engine.matched_probe(rank.world, 0, i))) {
        }
        status = Engine::status_of(*taken);
        data.resize(status.bytes);
        EXPECT_EQ(rank.engine.probe(rank.world, 0, i), nullptr) << "a matched probe takes it";
        receive = rank.engine.start_matched_receive(taken, Payload::of(data.data(), data.size()));
      }
      EXPECT_EQ(status.source, 0);
      EXPECT_EQ(status.tag, i);
      EXPECT_EQ(status.bytes, length(GetParam(), i));
      const Status received = rank.finish(receive);
      EXPECT_EQ(received.bytes, status.bytes);
      EXPECT_EQ(received.error, 0);
      EXPECT_EQ(first_wrong(data.data(), static_cast<unsigned>(i), data.size()), data.size())
          << "message " << i;
      std::vector<std::byte> between(8);
      EXPECT_EQ(rank.receive(0, 1000, between).bytes, 8U);
    }
  });
}

TEST_P(EngineOrder, AMatchedMessageMayWaitWhileOthersPass) {
  run(2, GetParam(), [&](const Rank& rank) {
    const std::uint64_t eager = eager_limit(GetParam());
    for (const std::uint64_t bytes : {std::uint64_t{8}, eager, eager + 1, std::uint64_t{100'000}}) {
      if (rank.id() == 0) {
        const auto data = message(bytes, bytes);
        Request* send = rank.start_send(1, 1, data);
        for (int i = 0; i < 30; ++i)
          rank.send(1, 2, message(static_cast<unsigned>(i), 100));
        rank.finish(send);
      } else {
        UnexpectedMessage* taken = nullptr;
        while (!(taken = rank.engine.matched_probe(rank.world, 0, 1))) {
        }
        for (int i = 0; i < 30; ++i) {
          std::vector<std::byte> data(100);
          rank.receive(0, any_tag, data);
          EXPECT_EQ(first_wrong(data.data(), static_cast<unsigned>(i), 100), 100U);
        }
        std::vector<std::byte> data(bytes);
        const Status status =
            rank.finish(rank.engine.start_matched_receive(taken, Payload::of(data.data(), bytes)));
        EXPECT_EQ(status.bytes, bytes);
        EXPECT_EQ(first_wrong(data.data(), bytes, bytes), bytes);
      }
    }
  });
}

}  // namespace
}  // namespace isthmus::engine_order_test
