#pragma once

#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "engine_ranks.hpp"

namespace isthmus::testing_ranks {

/// Says to all what a launcher says of a rank whose process has ended.
inline void bury(const launch::Job& dead, const std::vector<launch::Job>& jobs) {
  for (const launch::Job& job : jobs)
    if (!job.slot_of(dead.rank))
      job.region.roster(dead.rank).store(wire::RosterState::dead, std::memory_order_release);
  dead.region.block(dead.slot).life.store(wire::Life::ended, std::memory_order_release);
}

inline constexpr std::array<PeerId, 8> first_members{0, 1, 2, 3, 4, 5, 6, 7};

/// Ranks in threads, some of which end without a word: `body(rank)` returns whether the rank lives on.
template <class Body>
void run_with_deaths(std::uint32_t ranks, wire::IdlePolicy idle, const Body& body, std::uint32_t hosts = 1,
                     Settings settings = {}) {
  if (hosts > 1 && !why_no_network().empty()) GTEST_SKIP() << why_no_network();
  KeySpace space(ranks);
  auto jobs = host_jobs(ranks, hosts, space, {64, 64 * 1024}, idle);
  ASSERT_TRUE(jobs) << jobs.error().text();
  settings.warn = false;
  std::barrier<> barrier(ranks);
  std::vector<std::unique_ptr<Engine>> engines(ranks);  // a thread's end takes nothing with it
  std::vector<std::jthread> threads;
  for (std::uint32_t id = 0; id < ranks; ++id)
    threads.emplace_back([&, id] {
      auto made = Engine::make((*jobs)[id], settings);
      ASSERT_TRUE(made) << made.error().text();
      engines[id] = std::move(*made);
      MatchContext& world = engines[id]->open_context(Engine::world_context, ranks);
      world.name_sources({first_members.data(), ranks});
      barrier.arrive_and_wait();
      if (body(Rank{*engines[id], world, barrier}))
        engines[id]->finalize();
      else
        bury((*jobs)[id], *jobs);
    });
}

/// Takes part in the next agreement of the world, and waits for its outcome.
inline Agreements::Value settle(const Rank& rank, Agreements::Kind kind, Agreements::Value mine) {
  std::optional<Agreements::Value> outcome;
  rank.engine.agreements().join(Engine::world_context, {first_members.data(), rank.engine.size()}, kind,
                                std::move(mine), [&](const Agreements::Value& value) { outcome = value; });
  rank.engine.wait_for([&] { return outcome.has_value(); });
  return std::move(*outcome);  // a copy would need memory
}

/// Agrees on `flag` with all members of the world.
inline Agreements::Value agree(const Rank& rank, int flag, bool acknowledges = true) {
  Agreements::Value mine{.flag = flag, .failed = false, .words = {0}};
  for (const PeerId lost : rank.engine.lost())
    if (acknowledges) Agreements::set(mine.words, lost);
  return settle(rank, Agreements::Kind::agree, std::move(mine));
}

}  // namespace isthmus::testing_ranks
