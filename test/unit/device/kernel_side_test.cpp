// What kernels do, by threads of the host, in ordinary memory: docs/device.md.
#include <isthmus/fuse.cuh>

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace isthmus::device::kernel_side_test {
namespace {

/// As many ports in one process as there are ranks, with 4 signals and a share of 64 bytes each.
struct Ports {
  static constexpr u32 signals = 4;

  explicit Ports(int ranks)
      : lines(static_cast<std::size_t>(ranks)),
        memory(static_cast<std::size_t>(ranks)),
        states(static_cast<std::size_t>(ranks)),
        controls(static_cast<std::size_t>(ranks)) {
    const auto count = static_cast<u32>(ranks);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      lines[i].resize(signals + std::size_t{2} * count * ISTHMUS_DEVICE_TEAM_WORDS);
      memory[i].resize(64);
      peers.push_back({.signals = reinterpret_cast<u64>(lines[i].data()),
                       .packets = reinterpret_cast<u64>(lines[i].data() + signals),
                       .flags = ISTHMUS_DEVICE_ATOMICS,
                       .reserved = 0});
      spans.push_back({.base = reinterpret_cast<u64>(memory[i].data()), .bytes = 64});
    }
  }
  [[nodiscard]] DevicePort of(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    return DevicePort({.peers = peers.data(),
                       .spans = spans.data(),
                       .state = &states[at],
                       .control = &controls[at],
                       .requests = nullptr,
                       .slots = 0,
                       .signals = signals,
                       .shares = 1,
                       .rank = rank,
                       .ranks = static_cast<int>(peers.size()),
                       .is_team = 1});
  }

  std::vector<std::vector<Line>> lines;
  std::vector<std::vector<unsigned char>> memory;
  std::vector<isthmus_device_state> states;
  std::vector<isthmus_device_control> controls;
  std::vector<isthmus_device_peer> peers;
  std::vector<isthmus_device_span> spans;
};

TEST(DeviceCopy, MovesAllBytesAndNoOthersAtAnyAlignment) {
  std::vector<unsigned char> from(300), to(300);
  std::iota(from.begin(), from.end(), static_cast<unsigned char>(1));
  for (std::size_t a = 0; a < 17; ++a)
    for (std::size_t b = 0; b < 17; ++b)
      for (const std::size_t bytes : {0, 1, 3, 15, 16, 17, 64, 200}) {
        std::ranges::fill(to, static_cast<unsigned char>(0));
        // As the threads of a scope, one after the other.
        struct Some {
          explicit Some(u32 i) : at(i) {}
          [[nodiscard]] u32 index() const { return at; }
          [[nodiscard]] static u32 size() { return 7; }
          u32 at;
        };
        for (u32 i = 0; i < Some::size(); ++i)
          copy(Some(i), to.data() + b, from.data() + a, bytes);
        EXPECT_EQ(std::memcmp(to.data() + b, from.data() + a, bytes), 0);
        EXPECT_EQ(std::count_if(to.begin(), to.end(), [](unsigned char each) { return each != 0; }),
                  static_cast<std::ptrdiff_t>(bytes) -
                      std::count(from.begin() + static_cast<std::ptrdiff_t>(a),
                                 from.begin() + static_cast<std::ptrdiff_t>(a + bytes), 0));
      }
}

TEST(DevicePort, SignalsAreSetAddedToAndTaken) {
  Ports ports(2);
  const DevicePort first = ports.of(0), second = ports.of(1);
  EXPECT_FALSE(second.test(ByThread{}, 2, 1));
  EXPECT_TRUE(first.signal(ByThread{}, 1, 2, 5));
  EXPECT_TRUE(first.signal(ByThread{}, 1, 2, 3, SignalBy::add));
  EXPECT_TRUE(second.test(ByThread{}, 2, 8, Condition::equal));
  EXPECT_TRUE(second.test(ByThread{}, 2, 7));
  EXPECT_FALSE(second.test(ByThread{}, 2, 9));
  EXPECT_TRUE(second.test(ByThread{}, 2, 12, Condition::any_bit));
  EXPECT_FALSE(second.test(ByThread{}, 2, 7, Condition::any_bit));
  EXPECT_TRUE(second.take(ByThread{}, 2, 8));
  EXPECT_TRUE(second.test(ByThread{}, 2, 0, Condition::equal));
  u64 word = 0;
  EXPECT_TRUE(first.signal_with_word(ByThread{}, 1, 0, 1, 77));
  EXPECT_TRUE(second.wait_word(ByThread{}, 0, 1, word));
  EXPECT_EQ(word, 77U);
}

TEST(DevicePort, ARefusedCallWritesNothingAndIsNotedOnce) {
  Ports ports(2);
  const DevicePort port = ports.of(0);
  const unsigned char bytes[8]{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_FALSE(port.put_with_signal(ByThread{}, {0, 1, 57}, bytes, 8, 0, 1));
  EXPECT_FALSE(port.put(ByThread{}, {1, 1, 0}, bytes, 8));
  EXPECT_EQ(ports.memory[1], std::vector<unsigned char>(64));
  EXPECT_EQ(ports.lines[1][0].value, 0U);
  EXPECT_EQ(ports.controls[0].why, ISTHMUS_DEVICE_BAD_RANGE);
  EXPECT_EQ(ports.controls[0].offset, 57U);
  EXPECT_TRUE(port.put_with_signal(ByThread{}, {0, 1, 56}, bytes, 8, 0, 1));
  EXPECT_EQ(ports.memory[1][63], 8);
  EXPECT_EQ(ports.lines[1][0].value, 1U);
}

TEST(DevicePort, WaitsEndWhereThePortIsEnded) {
  Ports ports(2);
  const DevicePort port = ports.of(0);
  std::jthread ender([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    detail::store_word(&ports.controls[0].ended, 1);
  });
  EXPECT_FALSE(port.wait(ByBlock{}, 0, 1));
  EXPECT_FALSE(port.barrier(ByBlock{}));
  u64 word = 0;
  EXPECT_FALSE(port.wait_word(ByBlock{}, 0, 1, word));
}

/// Calls of different lengths in turn, so that halves of the packets are used again while others read them.
TEST(DeviceTeam, RoundsOfDifferentLengthsDoNotMix) {
  constexpr int ranks = 3;
  Ports ports(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&ports, rank] {
      const DevicePort port = ports.of(rank);
      for (u32 round = 0; round < 300; ++round) {
        std::vector<u64> values(1 + (round * 37) % 300, round + static_cast<u32>(rank));
        ASSERT_TRUE(port.allreduce(ByThread{}, values.data(), static_cast<u32>(values.size()),
                                   [](u64 a, u64 b) { return a + b; }));
        for (const u64 each : values)
          ASSERT_EQ(each, 3U * round + 3);
        values[0] = static_cast<u32>(rank);
        ASSERT_TRUE(port.broadcast(ByThread{}, values.data(), 1, static_cast<int>(round) % ranks));
        ASSERT_EQ(values[0], round % ranks);
        if (round % 5 == 0) {
          ASSERT_TRUE(port.barrier(ByThread{}));
        }
      }
    });
}

TEST(Fusion, TicketsAreTasksInTheOrderOfStepsRolesAndTasks) {
  const Fusion fusion{.state = nullptr, .steps = 2, .roles = 4, .tasks = {2, 0, 3, 1}};
  std::vector<std::array<u32, 3>> seen;
  for (u64 ticket = 0; ticket < 12; ++ticket) {
    const Task task = detail::task_of(fusion, ticket);
    seen.push_back({task.step, task.role, task.index});
  }
  const std::vector<std::array<u32, 3>> wanted{{0, 0, 0}, {0, 0, 1}, {0, 2, 0}, {0, 2, 1},
                                               {0, 2, 2}, {0, 3, 0}, {1, 0, 0}, {1, 0, 1},
                                               {1, 2, 0}, {1, 2, 1}, {1, 2, 2}, {1, 3, 0}};
  EXPECT_EQ(seen, wanted);
}

/// Blocks that begin in any order, as many at a time as there are multiprocessors.
template <class Body>
void run_grid(u32 blocks, u32 multiprocessors, u32 seed, Body body) {
  std::vector<u32> order(blocks);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  std::atomic<u32> next{0};
  std::vector<std::jthread> all;
  for (u32 i = 0; i < multiprocessors; ++i)
    all.emplace_back([&] {
      for (u32 at = next.fetch_add(1); at < blocks; at = next.fetch_add(1)) {
        twin::place() = {order[at], blocks};
        body();
      }
    });
}

TEST(Fusion, EachTaskIsDoneOnceAndBehindWhatItWaitsForInAnyGrid) {
  constexpr u32 steps = 6, roles = 3;
  constexpr u32 tasks[roles]{4, 1, 5};
  for (const u32 blocks : {1U, 2U, 5U, 40U})
    for (const u32 multiprocessors : {1U, 3U}) {
      Ports ports(1);
      const auto memory = std::make_unique<u64[]>(fusion_bytes(steps, roles) / sizeof(u64));
      const Fusion fusion{.state = reinterpret_cast<FusionState*>(memory.get()),
                          .steps = steps,
                          .roles = roles,
                          .tasks = {tasks[0], tasks[1], tasks[2]}};
      for (u32 launch = 0; launch < 3; ++launch) {
        std::atomic<u32> done[steps][roles]{};
        std::atomic<bool> wrong{false};
        run_grid(blocks, multiprocessors, launch + blocks, [&] {
          run_fused(fusion, ports.of(0), [&](const Task& task, const Crew& crew) {
            bool ok = true;
            if (task.role == 0) ok = crew.wait_for_last(2);
            if (task.role > 0) ok = crew.wait_for(task.role - 1);
            if (!ok) wrong = true;
            if (task.role > 0 && done[task.step][task.role - 1] != tasks[task.role - 1]) wrong = true;
            if (task.role == 0 && task.step > 0 && done[task.step - 1][2] != tasks[2]) wrong = true;
            ++done[task.step][task.role];
            return ok;
          });
        });
        EXPECT_FALSE(wrong);
        for (const auto& step : done)
          for (u32 role = 0; role < roles; ++role)
            EXPECT_EQ(step[role], tasks[role]);
        for (u64 i = 0; i < fusion_bytes(steps, roles) / sizeof(u64); ++i)
          EXPECT_EQ(memory[i], 0U);
      }
    }
}

TEST(Fusion, ARoleThatWaitsForALaterOneIsRefused) {
  Ports ports(1);
  const auto memory = std::make_unique<u64[]>(fusion_bytes(1, 2) / sizeof(u64));
  const Fusion fusion{
      .state = reinterpret_cast<FusionState*>(memory.get()), .steps = 1, .roles = 2, .tasks = {1, 1}};
  int refusals = 0;
  run_fused(fusion, ports.of(0), [&](const Task& task, const Crew& crew) {
    for (u32 role = task.role; role < 4; ++role)
      if (!crew.wait_for(role)) ++refusals;
    return true;
  });
  EXPECT_EQ(refusals, 4 + 3);
  EXPECT_EQ(ports.controls[0].why, ISTHMUS_DEVICE_BAD_ROLE);
}

}  // namespace
}  // namespace isthmus::device::kernel_side_test
