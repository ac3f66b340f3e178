#include "vrank/memory/heap.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace isthmus::vrank::heap_test {
namespace {

constexpr std::size_t room = std::size_t{1} << 32;

/// Addresses where nothing is, wherever a sanitizer leaves some.
std::uintptr_t free_addresses() {
  constexpr std::size_t unit = std::size_t{64} << 10;
  void* const got =
      ::mmap(nullptr, room + unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ::munmap(got, room + unit);
  return (reinterpret_cast<std::uintptr_t>(got) + unit - 1) / unit * unit;
}

class AHeap : public testing::Test {
 protected:
  AHeap() { heap.open(at, at + room); }
  // What has been mapped there since is another's.
  ~AHeap() override {
    ::munmap(reinterpret_cast<void*>(at), heap.top() - at);  // NOLINT(performance-no-int-to-ptr)
  }
  const std::uintptr_t at = free_addresses();
  Heap heap;
};

std::uintptr_t address(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

TEST_F(AHeap, GivesMemoryThatOverlapsNoOther) {
  std::mt19937 random(1);
  std::map<std::uintptr_t, std::size_t> held;
  for (int step = 0; step < 200'000; ++step) {
    if (held.size() > 500 || (!held.empty() && random() % 3 == 0)) {
      const auto one = std::next(held.begin(), static_cast<long>(random() % held.size()));
      auto* const memory = reinterpret_cast<unsigned char*>(one->first);  // NOLINT(performance-no-int-to-ptr)
      const auto value = static_cast<unsigned char>(one->first >> 4);
      ASSERT_EQ(memory[0], value);
      ASSERT_EQ(memory[one->second - 1], value);
      heap.free(memory);
      held.erase(one);
      continue;
    }
    const std::size_t bytes = 1 + random() % (random() % 50 == 0 ? 3'000'000 : 600);
    const std::size_t to = std::size_t{16} << random() % (random() % 4 == 0 ? 9 : 1);
    void* const memory = heap.allocate(bytes, to);
    ASSERT_NE(memory, nullptr);
    ASSERT_EQ(address(memory) % to, 0);
    ASSERT_GE(Heap::usable(memory), bytes);
    const auto next = held.lower_bound(address(memory));
    if (next != held.end()) ASSERT_LE(address(memory) + bytes, next->first);
    if (next != held.begin()) ASSERT_LE(std::prev(next)->first + std::prev(next)->second, address(memory));
    std::memset(memory, static_cast<int>(static_cast<unsigned char>(address(memory) >> 4)), bytes);
    held[address(memory)] = bytes;
  }
  for (const auto& [begin, bytes] : held)
    heap.free(reinterpret_cast<void*>(begin));  // NOLINT(performance-no-int-to-ptr)
  // All of it is one free block again.
  std::size_t ranges = 0, bytes = 0;
  heap.for_each_range([&](std::uintptr_t, std::size_t each) {
    ++ranges;
    bytes += each;
  });
  EXPECT_EQ(ranges, 2);
  EXPECT_LT(bytes, 100);
}

TEST_F(AHeap, KeepsWhatIsResized) {
  auto* memory = static_cast<char*>(heap.allocate(10));
  std::memcpy(memory, "123456789", 10);
  void* const behind = heap.allocate(10);
  for (const std::size_t bytes : {100, 100'000, 20'000'000, 50, 12}) {
    memory = static_cast<char*>(heap.resize(memory, bytes));
    ASSERT_STREQ(memory, "123456789");
    ASSERT_GE(Heap::usable(memory), bytes);
  }
  heap.free(behind);
  heap.free(memory);
}

TEST_F(AHeap, GivesZeros) {
  for (const std::size_t bytes : {100, 5000, 1'500'000, 30'000'000}) {
    void* const dirty = heap.allocate(bytes);
    std::memset(dirty, 1, bytes);
    heap.free(dirty);
    const auto* const memory = static_cast<const char*>(heap.allocate_zeros(bytes));
    for (std::size_t i = 0; i < bytes; ++i)
      ASSERT_EQ(memory[i], 0);
  }
}

TEST_F(AHeap, IsItsBytesAlone) {
  std::vector<std::pair<char*, std::size_t>> held;
  for (std::size_t i = 0; i < 300; ++i) {
    const std::size_t bytes = i * i * 10 + 1;
    held.emplace_back(static_cast<char*>(heap.allocate(bytes)), bytes);
    std::memset(held.back().first, static_cast<int>(i % 100), bytes);
  }
  for (std::size_t i = 0; i < held.size(); i += 3)
    heap.free(held[i].first);
  std::map<std::uintptr_t, std::vector<char>> kept;
  heap.for_each_range([&](std::uintptr_t begin, std::size_t bytes) {
    const auto* const from = reinterpret_cast<const char*>(begin);  // NOLINT(performance-no-int-to-ptr)
    kept[begin].assign(from, from + bytes);
  });
  const std::uintptr_t top = heap.top();
  auto* const all = reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
  ::munmap(all, top - at);
  ASSERT_EQ(::mmap(all, top - at, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            all);
  for (const auto& [begin, bytes] : kept)
    std::memcpy(reinterpret_cast<void*>(begin), bytes.data(),
                bytes.size());  // NOLINT(performance-no-int-to-ptr)
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (i % 3 == 0) continue;
    EXPECT_EQ(held[i].first[0], static_cast<char>(i % 100));
    EXPECT_EQ(held[i].first[held[i].second - 1], static_cast<char>(i % 100));
    heap.free(held[i].first);
  }
  EXPECT_NE(heap.allocate(5'000'000), nullptr);
}

TEST_F(AHeap, SaysWhenThereIsNoMore) {
  EXPECT_EQ(heap.allocate(room), nullptr);
  EXPECT_EQ(heap.allocate(~std::size_t{0}), nullptr);
  void* const memory = heap.allocate(100);
  EXPECT_EQ(heap.resize(memory, room), nullptr);
  EXPECT_NE(heap.allocate(room / 2), nullptr);
}

TEST_F(AHeap, IsForAllThreads) {
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      std::vector<int*> held(100);
      for (std::size_t step = 0; step < 20'000; ++step) {
        int*& one = held[step % held.size()];
        if (one) {
          ASSERT_EQ(*one, thread);
          heap.free(one);
        }
        one = static_cast<int*>(heap.allocate(4 + step % 300));
        *one = thread;
      }
    });
}

}  // namespace
}  // namespace isthmus::vrank::heap_test
