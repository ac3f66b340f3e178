// Several threads of one rank in its engine. What they do wrong, ThreadSanitizer sees (./dev test tsan).
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "channel/shm/ring_writer.hpp"
#include "launch/job.hpp"
#include "p2p/engine.hpp"

namespace isthmus::engine_threads_test {
namespace {

/// Rank 0 is an engine for several threads, whose waits sleep; rank 1 writes to its ring by hand.
struct TwoThreads {
  TwoThreads() {
    auto made = launch::local_jobs(2, {64, 64 * 1024}, wire::IdlePolicy::sleep);
    if (!made) return;
    jobs = std::move(*made);
    settings.warn = false;
    auto started = Engine::make(jobs[0], settings);
    if (!started) return;
    engine = std::move(*started);
    engine->lock().enable();
    world = &engine->open_context(Engine::world_context, 2);
    const wire::RegionView& region = jobs[0].region;
    const std::uint32_t number = region.header().rings_used.fetch_add(1);
    out = RingWriter(region.ring(number), {64, 64 * 1024});
    region.directory(0)[1].store(number + 1);
    region.block(0).connections.fetch_add(1);
  }
  void write(wire::CellKind kind, std::uint32_t size) {
    const wire::CellHeader header{.context = 0,
                                  .source = 1,
                                  .tag = 5,
                                  .size = size,
                                  .kind = kind,
                                  .flag = wire::CellFlag::none,
                                  .mark = 0};
    const std::array<std::byte, wire::inline_capacity> nothing{};
    out.publish(header, nothing.data(), nothing.size());
    jobs[0].region.doorbells(0)[0].fetch_or(2);
  }

  std::vector<launch::Job> jobs;
  Settings settings;
  std::unique_ptr<Engine> engine;
  MatchContext* world = nullptr;
  RingWriter out;
};

// A sleeper asks whether copies run that nobody would wake it for. Another thread makes, at the first message
// that goes that way, what it asks.
TEST(EngineThreads, ASleeperAsksForCopiesWithTheLockHeld) {
  for (int turn = 0; turn < 5; ++turn) {
    TwoThreads ranks;
    ASSERT_TRUE(ranks.engine);
    Engine& engine = *ranks.engine;
    int data = 0;
    std::thread waits([&] {
      const std::lock_guard guard(engine.lock());
      EXPECT_EQ(engine.receive(*ranks.world, 1, 5, Payload::of(&data, sizeof data)).bytes, 4U);
    });
    while (ranks.jobs[0].region.block(0).sleeping.load() == 0)
      std::this_thread::yield();
    // It has asked since it has last held the lock, for most of the time.
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    {
      const std::lock_guard guard(engine.lock());
      ranks.write(wire::CellKind::stage, 0);
      engine.progress();
    }
    {
      const std::lock_guard guard(engine.lock());
      ranks.write(wire::CellKind::eager_inline, 4);
      engine.progress();
    }
    waits.join();
  }
}

}  // namespace
}  // namespace isthmus::engine_threads_test
