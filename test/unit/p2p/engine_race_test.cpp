// A peer that changes what it has written while the engine reads it: whatever is checked is what is used.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "engine_hostile.hpp"
#include "sanitizers.hpp"
#include "wire/gpu.hpp"

namespace isthmus::engine_race_test {
namespace {

using testing_hostile::EngineHostile;

constexpr wire::RingGeometry geometry{64, 64 * 1024};
constexpr std::size_t canary = 64;

/// Memory of a request with a margin at both ends in which nobody may write.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) : memory_(bytes + 2 * canary, std::byte{0xc3}) {}
  [[nodiscard]] Payload payload() {
    return Payload::of(memory_.data() + canary, memory_.size() - 2 * canary);
  }
  [[nodiscard]] bool is_intact() const {
    const auto is_canary = [](std::byte each) { return each == std::byte{0xc3}; };
    return std::all_of(memory_.begin(), memory_.begin() + canary, is_canary) &&
           std::all_of(memory_.end() - canary, memory_.end(), is_canary);
  }

 private:
  std::vector<std::byte> memory_;
};

/// Changes single fields of cells that lie in the ring, without end, as no honest peer does: a cell that is
/// checked as one kind, size or source is another at the next look.
class Scribbler {
 public:
  Scribbler(std::span<std::byte> ring, std::uint64_t seed)
      : cells_(reinterpret_cast<wire::Cell*>(ring.data() + sizeof(wire::RingHeader))),
        random_(seed),
        thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested())
            change();
        }) {}

 private:
  template <class T>
  static void put(T& field, T value) {
    std::atomic_ref(field).store(value, std::memory_order_relaxed);
  }
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  void change() {
    constexpr std::uint32_t sizes[]{0, 8, 32, 33, 160, 2048, 24 * 1024, 24 * 1024 + 1, 0xffff'ffff};
    constexpr std::int32_t sources[]{0, 1, 2, -1, INT32_MAX};
    constexpr std::uint64_t contexts[]{0, 1, 9, ~std::uint64_t{0}};
    wire::Cell& cell = cells_[below(geometry.cells)];
    switch (below(6)) {
      case 0:
        return put(cell.header.size, sizes[below(std::size(sizes))]);
      case 1:
        return put(reinterpret_cast<std::uint8_t&>(cell.header.kind), static_cast<std::uint8_t>(below(19)));
      case 2:
        return put(cell.header.source, sources[below(std::size(sources))]);
      case 3:
        return put(cell.header.context, contexts[below(std::size(contexts))]);
      case 4:
        return put(reinterpret_cast<std::uint8_t&>(cell.header.flag), static_cast<std::uint8_t>(below(3)));
      default:
        return put(reinterpret_cast<std::uint64_t*>(cell.payload.data())[below(4)],
                   below(2) != 0 ? random_() : below(100'000));
    }
  }

  wire::Cell* cells_;
  std::mt19937_64 random_;
  std::jthread thread_;
};

class EngineRace : public EngineHostile {
 protected:
  void SetUp() override {
    if (under_thread_sanitizer) GTEST_SKIP() << "the race is the test";
    make(geometry, wire::IdlePolicy::spin, 1 << 20);
  }

  void send_something() {
    if (!out.has_cell()) return;
    const std::uint32_t size = below(3) == 0 ? 2048 : below(200);
    switch (below(5)) {
      case 0:
        return say(0, 1, 5, std::uint64_t{7});
      case 1:
        if (out.reserve(size))
          write(wire::CellKind::eager, wire::EagerHeader{size + below(2) * 100, 0, 0}, size);
        return;
      case 2:
        if (out.reserve(size)) write(wire::CellKind::eager_more, 0, size);
        return;
      case 3:
        return write(wire::CellKind::ready_to_send, wire::SendOffer{below(50), below(60'000), 0});
      default:
        if (requests.empty() || !out.reserve(size)) return;
        return write(wire::CellKind::fragment,
                     wire::FragmentHeader{requests[below(requests.size())].request->cookie(), 0}, size);
    }
  }
  void start_something() {
    auto memory = std::make_unique<Guarded>(below(2) != 0 ? below(64) : below(60'000));
    const Payload payload = memory->payload();
    Request* request = below(3) != 0
                           ? engine->start_receive(*world, below(2) != 0 ? 1 : any_source, 5, payload)
                           : engine->start_send({1, 0, 0, 5}, payload, SendMode::standard);
    if (request) requests.push_back({request, std::move(memory)});
  }
  /// Gives back what is complete; true if nobody has written beyond its memory.
  bool finish() {
    bool intact = true;
    std::erase_if(requests, [&](Pending& each) {
      if (!each.request->complete) return false;
      intact =
          intact && each.memory->is_intact() && each.request->status.bytes <= each.request->payload.bytes;
      engine->free(each.request);
      return true;
    });
    return intact;
  }
  std::uint32_t below(std::size_t bound) { return static_cast<std::uint32_t>(random() % bound); }

  struct Pending {
    Request* request;
    std::unique_ptr<Guarded> memory;
  };
  std::vector<Pending> requests;
  std::mt19937_64 random{42};
};

TEST_F(EngineRace, CellsThatChangeWhileTheyAreReadHarmNobody) {
  const Scribbler first(region().ring(0), 1), second(region().ring(0), 2);
  RingReader answers;
  for (int step = 0; step < 200'000; ++step) {
    send_something();
    if (requests.size() < 40) start_something();
    engine->progress();
    if (step % 64 == 0) {
      ASSERT_TRUE(finish()) << "at step " << step;
    }
    if (!answers.open() && region().directory(1)[0].load() != 0) answers = in();
    // What the engine answers is read, as an honest peer does.
    while (const wire::Cell* cell = answers.open() ? answers.front() : nullptr)
      wire::has_piece(cell->header.kind) ? answers.pop_piece(cell->header.size) : answers.pop();
  }
  for (const Pending& each : requests)
    EXPECT_TRUE(each.memory->is_intact());
  engine.reset();
}

/// The counters that the engine reads from the region, in turn: rings, doorbells, the reader's progress.
TEST_F(EngineRace, CountersThatJumpHarmNobody) {
  static_cast<void>(start_send(8));
  auto* const header =
      reinterpret_cast<wire::RingHeader*>(region().ring(region().directory(1)[0] - 1).data());
  const std::jthread scribbler([&](const std::stop_token& stop) {
    std::mt19937_64 numbers(3);
    while (!stop.stop_requested()) {
      const std::uint64_t number = numbers() % 3 != 0 ? numbers() % 200'000 : numbers();
      header->cells_read.store(number, std::memory_order_relaxed);
      header->bytes_read.store(numbers() % 200'000, std::memory_order_relaxed);
      region().block(0).connections.fetch_add(1, std::memory_order_relaxed);
      region().directory(0)[1].store(static_cast<std::uint32_t>(number), std::memory_order_relaxed);
      region().doorbells(0)[0].store(number, std::memory_order_relaxed);
    }
  });
  for (int step = 0; step < 50'000; ++step) {
    if (requests.size() < 40) start_something();
    send_something();
    engine->progress();
    if (step % 64 == 0) {
      ASSERT_TRUE(finish());
    }
  }
}

}  // namespace
}  // namespace isthmus::engine_race_test
