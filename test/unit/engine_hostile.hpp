#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "channel/shm/ring_reader.hpp"
#include "channel/shm/ring_writer.hpp"
#include "launch/job.hpp"
#include "p2p/engine.hpp"

namespace isthmus::testing_hostile {

/// Rank 0 is an engine, and rank 1 the test, which writes to the region by hand.
class EngineHostile : public testing::Test {
 protected:
  void SetUp() override { make({64, 64 * 1024}); }

  void make(wire::RingGeometry geometry, wire::IdlePolicy idle = wire::IdlePolicy::spin,
            std::uint64_t unexpected_limit = Settings{}.unexpected_limit) {
    engine.reset();
    auto made = launch::local_jobs(2, geometry, idle);
    ASSERT_TRUE(made);
    jobs = std::move(*made);
    // As if the other were a process of its own.
    jobs[0].in_process = false;
    Settings settings;
    settings.warn = false;
    settings.unexpected_limit = unexpected_limit;
    auto started = Engine::make(jobs[0], settings);
    ASSERT_TRUE(started);
    engine = std::move(*started);
    world = &engine->open_context(Engine::world_context, 2);
    const std::uint32_t number = region().header().rings_used.fetch_add(1);
    out = RingWriter(region().ring(number), geometry);
    region().directory(0)[1].store(number + 1);
    region().block(0).connections.fetch_add(1);
  }
  const wire::RegionView& region() { return jobs[0].region; }
  wire::PlaceRecord& place() { return region().block(1).place; }

  template <class T>
  void write(wire::CellKind kind, const T& payload, std::uint32_t size = 0, int source = 1, int tag = 5,
             ContextId context = Engine::world_context) {
    static_assert(sizeof(T) <= wire::inline_capacity);
    ASSERT_TRUE(out.has_cell());
    const wire::CellHeader header{.context = context,
                                  .source = source,
                                  .tag = tag,
                                  .size = size,
                                  .kind = kind,
                                  .flag = wire::CellFlag::none,
                                  .mark = 0};
    if (wire::has_piece(kind) && size <= wire::maximum_piece(region().geometry())) {
      std::byte* to = out.reserve(size);
      ASSERT_TRUE(to);
      std::memset(to, 0x5a, size);
      out.publish_reserved(header, &payload, sizeof payload);
    } else {
      out.publish(header, &payload, sizeof payload);
    }
    region().doorbells(0)[0].fetch_or(2);
  }
  /// As an honest peer sends a message that fits into a cell.
  template <class T>
  void say(ContextId context, int source, int tag, const T& fact) {
    static_assert(sizeof(T) <= wire::inline_capacity);
    ASSERT_TRUE(out.has_cell());
    out.publish({.context = context,
                 .source = source,
                 .tag = tag,
                 .size = sizeof fact,
                 .kind = wire::CellKind::eager_inline,
                 .flag = wire::CellFlag::none,
                 .mark = 0},
                &fact, sizeof fact);
    region().doorbells(0)[0].fetch_or(2);
  }
  void progress(int turns = 10) {
    for (int i = 0; i < turns; ++i)
      engine->progress();
  }
  /// The ring from the engine, once it has sent.
  RingReader in() {
    const std::uint32_t entry = region().directory(1)[0].load();
    EXPECT_NE(entry, 0U);
    return {region().ring(entry - 1), region().geometry()};
  }
  Request* start_send(std::uint64_t bytes, SendMode mode = SendMode::standard) {
    const auto& data = memory.emplace_back(bytes, std::byte{7});
    return engine->start_send({1, 0, 0, 5}, Payload::of(data.data(), bytes), mode);
  }
  Request* start_receive(std::uint64_t bytes, int source = 1) {
    auto& data = memory.emplace_back(bytes);
    return engine->start_receive(*world, source, 5, Payload::of(data.data(), bytes));
  }

  std::vector<launch::Job> jobs;
  std::deque<std::vector<std::byte>> memory;
  std::unique_ptr<Engine> engine;
  MatchContext* world = nullptr;
  RingWriter out;
};

/// A child that has a copy of this process's memory, and waits to be killed.
class Child {
 public:
  Child()
      : Child([] {
          for (;;)
            ::pause();
        }) {}
  /// That does something else, and never returns from it.
  template <class Work>
  explicit Child(Work work) : pid_(::fork()) {
    if (pid_ == 0) work();
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

}  // namespace isthmus::testing_hostile
