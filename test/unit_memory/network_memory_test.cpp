// Messages between hosts while memory runs out, at the n-th allocation from the first of them on, for every
// n. A call that fails with that has begun nothing, and may be made again. What has begun ends: with its
// data, or with the error that there was no memory, or that the other process is given up; and then nothing
// more is written.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <vector>

#include "datatype/construct.hpp"
#include "failing_new.hpp"
#include "loss_ranks.hpp"

namespace isthmus::testing_ranks {
namespace {

using testing_memory::Shortage;

constexpr long most = 2000;

/// A message each way.
struct Flight {
  std::uint64_t bytes;
  SendMode mode = SendMode::standard;
  bool is_early = false;         ///< it is there before its receive
  bool has_gaps = false;         ///< where it is received
  std::uint64_t wanted = bytes;  ///< at most
};

/// In the message itself, behind it, in one piece, in several, and so with a receive of less or with gaps.
constexpr std::uint64_t lengths[]{8, 2000, 100'000, 400'000, 1'000'000};

std::vector<Flight> flights() {
  std::vector<Flight> all;
  for (const std::uint64_t bytes : lengths)
    for (const bool is_early : {false, true}) {
      all.push_back({.bytes = bytes, .is_early = is_early});
      all.push_back({.bytes = bytes, .mode = SendMode::synchronous, .is_early = is_early});
      all.push_back({.bytes = bytes, .is_early = is_early, .has_gaps = true});
      all.push_back({.bytes = bytes, .is_early = is_early, .wanted = bytes / 4});
    }
  return all;
}

const Datatype& gaps() {
  static const Ref<Datatype> type = [] {
    auto made = vector_type(2, 4, 8, Datatype::basic(Basic::byte), Form::small);
    EXPECT_TRUE((*made)->commit());
    return *made;
  }();
  return *type;
}

/// A message and what has become of it.
struct Carried {
  Flight flight;
  int tag;
  std::vector<std::byte> out, in, when_it_ended{};
  Request* send = nullptr;
  Request* receive = nullptr;
  Status sent{}, received{};

  Carried(const Flight& of, int number, int from)
      : flight(of),
        tag(number),
        out(message(static_cast<std::uint64_t>(number * 2 + from), of.bytes)),
        in((of.has_gaps ? 3 : 1) * of.bytes + 64, std::byte{0x5A}) {}

  [[nodiscard]] Payload room() {
    if (flight.has_gaps) return Payload::of(in.data(), static_cast<std::int64_t>(flight.bytes / 8), gaps());
    return Payload::of(in.data(), flight.wanted);
  }
  [[nodiscard]] std::byte at(std::uint64_t i) const {
    return in[flight.has_gaps ? i / 8 * 12 + (i % 8 < 4 ? i % 8 : i % 8 + 4) : i];
  }
};

/// Calls again what has had no memory.
template <class Call>
auto insist(const Call& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return call();
  }
}

void start_sends(const Rank& rank, std::vector<Carried>& all) {
  const int peer = 1 - rank.id();
  for (Carried& each : all)
    each.send = insist([&] { return rank.start_send(peer, each.tag, each.out, each.flight.mode); });
}

void start_receives(const Rank& rank, std::vector<Carried>& all, bool early) {
  for (Carried& each : all)
    if (each.flight.is_early == early)
      each.receive =
          insist([&] { return rank.engine.start_receive(rank.world, 1 - rank.id(), each.tag, each.room()); });
}

bool is_an_end(int error) {
  return error == 0 || error == static_cast<int>(ErrorClass::no_mem) ||
         error == static_cast<int>(ErrorClass::proc_aborted);
}

void check_end(const Carried& each, int from) {
  EXPECT_TRUE(is_an_end(each.sent.error)) << each.tag << ": " << each.sent.error;
  const bool is_cut = each.flight.wanted < each.flight.bytes;
  if (is_cut && each.received.error == static_cast<int>(ErrorClass::truncate)) return;
  EXPECT_TRUE(is_an_end(each.received.error)) << each.tag << ": " << each.received.error;
  if (each.received.error != 0) return;
  std::uint64_t i = 0;
  while (i < each.flight.wanted && each.at(i) == pattern(static_cast<std::uint64_t>(each.tag * 2 + from), i))
    ++i;
  EXPECT_EQ(i, each.flight.wanted) << "message " << each.tag << " of " << each.flight.bytes << " bytes";
}

/// All of them, both ways; whether an allocation has failed.
bool carry(const Rank& rank, std::vector<Carried>& all, long number) {
  bool was_hit = false;
  {
    const Shortage shortage(number);
    start_receives(rank, all, false);
    start_sends(rank, all);
    // What comes early has come when a later message has.
    for (const Carried& each : all)
      if (!each.flight.is_early) rank.engine.wait(*each.receive);
    start_receives(rank, all, true);
    for (const Carried& each : all) {
      rank.engine.wait(*each.receive);
      if (each.send) rank.engine.wait(*each.send);
    }
    was_hit = shortage.was_felt();
  }
  for (Carried& each : all) {
    each.received = rank.finish(each.receive);
    each.sent = rank.finish(each.send);
    check_end(each, 1 - rank.id());
    each.when_it_ended = each.in;
  }
  return was_hit;
}

TEST(NetworkMemoryTest, MessagesBetweenHostsEnd) {
  if (!why_no_network().empty()) GTEST_SKIP() << why_no_network();
  static_cast<void>(gaps());
  bool is_over = false;
  for (long number = 1; !is_over && !HasFailure(); ++number) {
    ASSERT_LT(number, most);
    SCOPED_TRACE(number);
    std::atomic<bool> was_hit = false;
    std::vector<Carried> carried[2];
    run_with_deaths(
        2, wire::IdlePolicy::sleep,
        [&](const Rank& rank) {
          auto& mine = carried[rank.id()];
          int tag = 0;
          for (const Flight& each : flights())
            mine.emplace_back(each, ++tag, rank.id());
          if (carry(rank, mine, rank.id() == 0 ? number : 0)) was_hit = true;
          return true;
        },
        2);
    for (const auto& mine : carried)
      for (const Carried& each : mine)
        EXPECT_TRUE(each.in == each.when_it_ended) << "message " << each.tag << " is written after its end";
    is_over = !was_hit;
  }
}

}  // namespace
}  // namespace isthmus::testing_ranks
