#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "host_jobs.hpp"
#include "launch/job.hpp"
#include "p2p/engine.hpp"

namespace isthmus::testing_ranks {

/// A way to run a job.
struct Conditions {
  const char* name;
  wire::RingGeometry geometry{512, 512 * 1024};
  wire::IdlePolicy idle = wire::IdlePolicy::sleep;
  CmaSetting cma = CmaSetting::automatic;
  std::uint64_t eager_limit = 0;
  std::uint32_t hosts = 1;
  std::uint64_t unexpected_limit = Settings{}.unexpected_limit;

  friend void PrintTo(const Conditions& conditions, std::ostream* out) { *out << conditions.name; }
};

/// Both idle policies, with and without direct copies, and rings that a few messages fill.
inline const std::vector<Conditions>& all_conditions() {
  using wire::IdlePolicy;
  constexpr wire::RingGeometry usual{512, 512 * 1024}, small{16, 4096};
  static const std::vector<Conditions> all{
      {"Spin", usual, IdlePolicy::spin, CmaSetting::automatic},
      {"SpinWithoutCma", usual, IdlePolicy::spin, CmaSetting::off},
      {"Sleep", usual, IdlePolicy::sleep, CmaSetting::automatic},
      {"SleepWithoutCma", usual, IdlePolicy::sleep, CmaSetting::off},
      {"SpinSmallRing", small, IdlePolicy::spin, CmaSetting::automatic},
      {"SpinSmallRingWithoutCma", small, IdlePolicy::spin, CmaSetting::off},
      {"SleepSmallRing", small, IdlePolicy::sleep, CmaSetting::automatic},
      {"SleepSmallRingWithoutCma", small, IdlePolicy::sleep, CmaSetting::off},
      {"SpinEagerBeyondTheCells", {16, 1 << 20}, IdlePolicy::spin, CmaSetting::automatic, 200'000},
      {"SleepEagerOfMostOfTheRing", {32, 16 * 1024}, IdlePolicy::sleep, CmaSetting::automatic, 16 * 1024},
      {"SpinNothingEager", usual, IdlePolicy::spin, CmaSetting::automatic, 1},
      {"SpinTwoHosts", usual, IdlePolicy::spin, CmaSetting::automatic, 0, 2},
      {"SleepThreeHosts", usual, IdlePolicy::sleep, CmaSetting::automatic, 0, 3},
  };
  return all;
}

/// Where a message begins to go by rendezvous.
inline std::uint64_t eager_limit(const Conditions& conditions) {
  return std::clamp<std::uint64_t>(conditions.eager_limit ? conditions.eager_limit : 16 * 1024,
                                   wire::inline_capacity, wire::maximum_piece(conditions.geometry));
}

/// Around every size at which a message changes its way.
inline std::vector<std::uint64_t> sizes(const Conditions& conditions) {
  const std::uint64_t eager = eager_limit(conditions);
  std::vector<std::uint64_t> all{0,    1,    3,    7,    8,     15,    16,    31,    32,    33,
                                 64,   127,  128,  129,  511,   512,   2047,  2048,  2049,  4095,
                                 4096, 4097, 6143, 6144, 16384, 16385, 65535, 65536, 65537, 300'001};
  for (const std::uint64_t near : {eager - 1, eager, eager + 1})
    all.push_back(near);
  return all;
}

inline std::byte pattern(std::uint64_t seed, std::uint64_t i) {
  return static_cast<std::byte>((seed * 2654435761U + i * 167 + (i >> 8) * 13) >> 3);
}

inline std::vector<std::byte> message(std::uint64_t seed, std::uint64_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i)
    data[i] = pattern(seed, i);
  return data;
}

/// Where `data` differs from what `message(seed, ...)` has; its size if nowhere.
inline std::uint64_t first_wrong(const std::byte* data, std::uint64_t seed, std::uint64_t bytes) {
  for (std::uint64_t i = 0; i < bytes; ++i)
    if (data[i] != pattern(seed, i)) return i;
  return bytes;
}

/// One rank of a job, in its thread.
struct Rank {
  Engine& engine;
  MatchContext& world;
  std::barrier<>& barrier;

  [[nodiscard]] int id() const { return static_cast<int>(engine.rank()); }
  [[nodiscard]] int size() const { return static_cast<int>(engine.size()); }
  [[nodiscard]] Target to(int peer, int tag) const {
    return {static_cast<PeerId>(peer), Engine::world_context, id(), tag};
  }
  /// Without a message, and without progress.
  void meet() const { barrier.arrive_and_wait(); }

  Request* start_send(int peer, int tag, const std::vector<std::byte>& data,
                      SendMode mode = SendMode::standard) const {
    return engine.start_send(to(peer, tag), Payload::of(data.data(), data.size()), mode);
  }
  int send(int peer, int tag, const std::vector<std::byte>& data, SendMode mode = SendMode::standard) const {
    return engine.send(to(peer, tag), Payload::of(data.data(), data.size()), mode);
  }
  Request* start_receive(int source, int tag, std::vector<std::byte>& data) const {
    return engine.start_receive(world, source, tag, Payload::of(data.data(), data.size()));
  }
  Status receive(int source, int tag, std::vector<std::byte>& data) const {
    return engine.receive(world, source, tag, Payload::of(data.data(), data.size()));
  }
  /// A message of no bytes, to say that something has happened.
  void tell(int peer, int tag) const { send(peer, tag, {}); }
  void hear(int source, int tag) const {
    std::vector<std::byte> nothing;
    receive(source, tag, nothing);
  }
  /// Waits for a request, gives it back, and returns its status.
  Status finish(Request* request) const {
    if (!request) return {};
    engine.wait(*request);
    const Status status = request->status;
    engine.free(request);
    return status;
  }
};

/// Runs `body(rank)` in a thread for each rank of a job, and ends the job as MPI_Finalize does.
template <class Body>
void run(std::uint32_t ranks, const Conditions& conditions, const Body& body) {
  if (conditions.hosts > 1 && !why_no_network().empty()) GTEST_SKIP() << why_no_network();
  KeySpace space(ranks);
  auto jobs = host_jobs(ranks, conditions.hosts, space, conditions.geometry, conditions.idle);
  ASSERT_TRUE(jobs) << jobs.error().text();
  Settings settings;
  settings.cma = conditions.cma;
  settings.eager_limit = conditions.eager_limit;
  settings.unexpected_limit = conditions.unexpected_limit;
  std::barrier<> barrier(ranks);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        auto engine = Engine::make((*jobs)[rank], settings);
        ASSERT_TRUE(engine) << engine.error().text();
        MatchContext& world = (*engine)->open_context(Engine::world_context, ranks);
        barrier.arrive_and_wait();
        body(Rank{**engine, world, barrier});
        (*engine)->finalize();
        // Its memory may still be read by a peer that has not seen the end.
        barrier.arrive_and_wait();
      });
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    EXPECT_EQ((*jobs)[rank].region.roster(rank).load(), wire::RosterState::finalized);
}

}  // namespace isthmus::testing_ranks
