// Full rings, many messages at once, many ranks, and threads.
#include <gtest/gtest.h>

#include <mutex>

#include "engine_ranks.hpp"

namespace isthmus::engine_pressure_test {
namespace {

using namespace testing_ranks;

class EnginePressure : public testing::TestWithParam<Conditions> {};

INSTANTIATE_TEST_SUITE_P(, EnginePressure, testing::ValuesIn(all_conditions()),
                         [](const auto& info) { return std::string(info.param.name); });

std::uint64_t length(const Conditions& conditions, int i) {
  const std::uint64_t eager = eager_limit(conditions);
  const std::uint64_t some[]{8, eager, 40, 0, eager - 31, 32, 2048, eager / 2 + 1, 64};
  return some[static_cast<std::size_t>(i) % std::size(some)];
}

TEST_P(EnginePressure, FloodsInBothDirectionsArriveInOrder) {
  constexpr int messages = 300;
  run(2, GetParam(), [&](const Rank& rank) {
    const int other = 1 - rank.id();
    std::vector<std::vector<std::byte>> out;
    std::vector<Request*> sends;
    for (int i = 0; i < messages; ++i) {
      out.push_back(message(static_cast<unsigned>(i + rank.id()), length(GetParam(), i)));
      sends.push_back(rank.start_send(other, 1, out.back()));
    }
    for (int i = 0; i < messages; ++i) {
      std::vector<std::byte> in(length(GetParam(), i));
      const Status status = rank.receive(other, 1, in);
      ASSERT_EQ(status.bytes, in.size()) << "message " << i;
      ASSERT_EQ(first_wrong(in.data(), static_cast<unsigned>(i + other), in.size()), in.size());
    }
    for (Request* send : sends)
      EXPECT_EQ(rank.finish(send).error, 0);
    EXPECT_EQ(rank.engine.requests().living(), 0U);
  });
}

TEST_P(EnginePressure, ExchangesWithoutRequestsDoNotDeadlock) {
  run(2, GetParam(), [&](const Rank& rank) {
    const int other = 1 - rank.id();
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t bytes = i % 10 == 9 ? 150'000 : length(GetParam(), i);
      const auto out = message(static_cast<unsigned>(i), bytes);
      std::vector<std::byte> in(bytes);
      const Status status = rank.engine.send_receive(rank.to(other, 3), Payload::of(out.data(), bytes),
                                                     rank.world, other, 3, Payload::of(in.data(), bytes));
      ASSERT_EQ(status.bytes, bytes);
      ASSERT_EQ(first_wrong(in.data(), static_cast<unsigned>(i), bytes), bytes);
    }
  });
}

TEST_P(EnginePressure, ManyLargeMessagesAtOnceInBothDirections) {
  constexpr int messages = 24;  // more than a ring has shares
  run(2, GetParam(), [&](const Rank& rank) {
    const int other = 1 - rank.id();
    const auto bytes = [](int i) { return static_cast<std::uint64_t>(66'000 + 4097 * i); };
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<std::byte>> out, in;
      std::vector<Request*> requests;
      for (int i = 0; i < messages; ++i) {
        in.emplace_back(bytes(i));
        out.push_back(message(static_cast<unsigned>(i + 50 * rank.id()), bytes(i)));
      }
      const auto at = [](auto& list, int i) -> auto& { return list[static_cast<std::size_t>(i)]; };
      for (int i = 0; i < messages; ++i) {
        if (round != 1) requests.push_back(rank.start_receive(other, i, at(in, i)));
        requests.push_back(rank.start_send(other, i, at(out, i)));
      }
      for (int i = 0; i < messages && round == 1; ++i)
        requests.push_back(rank.start_receive(other, messages - 1 - i, at(in, messages - 1 - i)));
      for (Request* request : requests)
        EXPECT_EQ(rank.finish(request).error, 0);
      for (int i = 0; i < messages; ++i)
        EXPECT_EQ(first_wrong(at(in, i).data(), static_cast<unsigned>(i + 50 * other), bytes(i)), bytes(i))
            << "message " << i << ", round " << round;
    }
    EXPECT_EQ(rank.engine.requests().living(), 0U);
  });
}

TEST_P(EnginePressure, EverybodySendsToEverybody) {
  constexpr int ranks = 6;
  run(ranks, GetParam(), [&](const Rank& rank) {
    for (const std::uint64_t base :
         {std::uint64_t{8}, std::uint64_t{1000}, eager_limit(GetParam()) + 100, std::uint64_t{70'000}}) {
      std::vector<std::vector<std::byte>> out, in;
      std::vector<Request*> requests;
      for (int peer = 0; peer < ranks; ++peer) {
        out.push_back(
            message(static_cast<unsigned>(rank.id() * ranks + peer), base + static_cast<unsigned>(peer)));
        in.emplace_back(base + static_cast<unsigned>(rank.id()));
      }
      for (int peer = 0; peer < ranks; ++peer)
        requests.push_back(rank.start_receive(peer, 7, in[static_cast<std::size_t>(peer)]));
      for (int peer = 0; peer < ranks; ++peer)
        requests.push_back(rank.start_send((rank.id() + peer) % ranks, 7,
                                           out[static_cast<std::size_t>((rank.id() + peer) % ranks)]));
      for (Request* request : requests)
        EXPECT_EQ(rank.finish(request).error, 0);
      for (int peer = 0; peer < ranks; ++peer) {
        const auto& data = in[static_cast<std::size_t>(peer)];
        EXPECT_EQ(first_wrong(data.data(), static_cast<unsigned>(peer * ranks + rank.id()), data.size()),
                  data.size());
      }
    }
  });
}

TEST_P(EnginePressure, ThreadsOfOneRankSendAndReceiveAtOnce) {
  constexpr int threads = 3, messages = 60;
  run(2, GetParam(), [&](const Rank& rank) {
    rank.engine.lock().enable();
    const int other = 1 - rank.id();
    std::vector<std::jthread> workers;
    for (int thread = 0; thread < threads; ++thread)
      workers.emplace_back([&, thread] {
        for (int i = 0; i < messages; ++i) {
          const std::uint64_t bytes = i % 20 == 19 ? 100'000 : length(GetParam(), i);
          const auto out = message(static_cast<unsigned>(i + thread), bytes);
          std::vector<std::byte> in(bytes);
          std::unique_lock lock(rank.engine.lock());
          const Status status =
              rank.engine.send_receive(rank.to(other, thread), Payload::of(out.data(), bytes), rank.world,
                                       other, thread, Payload::of(in.data(), bytes));
          lock.unlock();
          ASSERT_EQ(status.bytes, bytes);
          ASSERT_EQ(first_wrong(in.data(), static_cast<unsigned>(i + thread), bytes), bytes);
        }
      });
    workers.clear();
    rank.meet();
  });
}

TEST(EngineManyRanks, MoreThanADoorbellWordHas) {
  constexpr int ranks = 70;
  const Conditions conditions{"", wire::RingGeometry::for_ranks(ranks), wire::IdlePolicy::sleep};
  run(ranks, conditions, [&](const Rank& rank) {
    for (const std::uint64_t bytes : {std::uint64_t{4}, eager_limit(conditions), std::uint64_t{20'000}}) {
      std::vector<std::vector<std::byte>> in(3, std::vector<std::byte>(bytes));
      std::vector<Request*> requests;
      const int distances[]{1, 33, ranks - 1};
      for (int i = 0; i < 3; ++i)
        requests.push_back(rank.start_receive((rank.id() + ranks - distances[i]) % ranks, i,
                                              in[static_cast<std::size_t>(i)]));
      const auto out = message(static_cast<unsigned>(rank.id()), bytes);
      for (int i = 0; i < 3; ++i)
        requests.push_back(rank.start_send((rank.id() + distances[i]) % ranks, i, out));
      for (Request* request : requests)
        rank.finish(request);
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(first_wrong(in[static_cast<std::size_t>(i)].data(),
                              static_cast<unsigned>((rank.id() + ranks - distances[i]) % ranks), bytes),
                  bytes);
    }
  });
}

}  // namespace
}  // namespace isthmus::engine_pressure_test
