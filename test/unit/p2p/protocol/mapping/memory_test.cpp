// Memory that peers map, and what of the descriptors and numbers of a hostile one is believed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/system/memory_file.hpp"
#include "p2p/protocol/mapping/own_allocations.hpp"
#include "p2p/protocol/mapping/peer_mappings.hpp"
#include "p2p/protocol/mapping/shared_memory.hpp"

namespace isthmus::memory_test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t any_size = std::uint64_t{1} << 40;
constexpr std::size_t page = 4096;

SharedMemory made(std::size_t bytes, std::size_t alignment = page) {
  auto memory = SharedMemory::make(bytes, alignment);
  EXPECT_TRUE(memory) << memory.error().text();
  return memory ? std::move(*memory) : SharedMemory();
}

UniqueFd sealed(std::uint64_t bytes, int seals) {
  UniqueFd file = make_memory_file();
  EXPECT_TRUE(set_size(file, bytes));
  EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

std::string why_refused(const UniqueFd& file, std::uint64_t most = any_size) {
  const auto range = map_shared_memory(file, most);
  return range ? "" : range.error().text();
}

std::ptrdiff_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(SharedMemory, IsReadWhereItIsMappedAgain) {
  for (const std::size_t bytes : {std::size_t{1}, page, page + 1, std::size_t{3'000'000}}) {
    const SharedMemory memory = made(bytes);
    const auto seen = map_shared_memory(memory.file, any_size);
    ASSERT_TRUE(seen) << seen.error().text();
    EXPECT_GE(seen->bytes(), bytes);
    EXPECT_NE(seen->data(), memory.range.data());
    memory.range.data()[0] = std::byte{7};
    memory.range.data()[bytes - 1] = std::byte{8};
    EXPECT_EQ(seen->data()[bytes - 1], std::byte{8});
    if (bytes > 1) {
      EXPECT_EQ(seen->data()[0], std::byte{7});
    }
  }
}

TEST(SharedMemory, IsAlignedAsWanted) {
  for (const std::size_t alignment : {std::size_t{1}, page, std::size_t{1} << 16, std::size_t{1} << 25}) {
    const SharedMemory memory = made(20'000, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.range.data()) % alignment, 0U);
  }
}

TEST(SharedMemory, OfMoreThanThereIsFails) {
  for (const std::size_t bytes : {std::size_t{1} << 46, std::size_t{1} << 62, ~std::size_t{0}})
    EXPECT_FALSE(SharedMemory::make(bytes, page)) << bytes;
  EXPECT_FALSE(SharedMemory::make(page, std::size_t{1} << 62));
}

/// Whoever gets the descriptor, and does with it what the kernel allows.
TEST(SharedMemory, NobodyElseWritesToItOrChangesItsSize) {
  const SharedMemory memory = made(2 * page);
  memory.range.data()[0] = std::byte{1};
  const std::string name = "/proc/self/fd/" + std::to_string(memory.file.get());
  const UniqueFd again(::open(name.c_str(), O_RDWR | O_CLOEXEC));
  const char byte = 2;
  for (const UniqueFd* file : {&memory.file, &again}) {
    if (!*file) continue;
    EXPECT_EQ(::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0), MAP_FAILED);
    EXPECT_EQ(::pwrite(file->get(), &byte, 1, 0), -1);
    EXPECT_EQ(::ftruncate(file->get(), 0), -1);
    EXPECT_EQ(::ftruncate(file->get(), 16 * page), -1);
    EXPECT_EQ(::fallocate(file->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, page), -1);
  }
  const auto seen = map_shared_memory(memory.file, any_size);
  ASSERT_TRUE(seen);
  EXPECT_EQ(::mprotect(seen->data(), page, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(memory.range.data()[0], std::byte{1});
}

TEST(SharedMemory, WhatTheChildOfAForkWritesIsItsOwn) {
  const SharedMemory memory = made(2 * page);
  memory.range.data()[0] = std::byte{1};
  const pid_t child = ::fork();
  if (child == 0) {
    memory.part_from_parent();
    const bool sees = memory.range.data()[0] == std::byte{1};
    std::memset(memory.range.data(), 9, 2 * page);
    ::_exit(sees && memory.range.data()[page] == std::byte{9} ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(memory.range.data()[0], std::byte{1});
  EXPECT_EQ(memory.range.data()[page], std::byte{0});
}

TEST(SharedMemory, LeavesNothingOpen) {
  const auto before = open_files();
  for (int i = 0; i < 20; ++i) {
    const SharedMemory memory = made(page);
    const auto seen = map_shared_memory(memory.file, any_size);
    EXPECT_TRUE(seen);
  }
  EXPECT_EQ(open_files(), before);
}

TEST(MapSharedMemory, RefusesWhatMayShrink) {
  EXPECT_THAT(why_refused(sealed(page, 0)), HasSubstr("not sealed"));
  EXPECT_THAT(why_refused(sealed(page, F_SEAL_GROW | F_SEAL_SEAL)), HasSubstr("not sealed"));
  EXPECT_EQ(why_refused(sealed(page, F_SEAL_SHRINK)), "");
}

TEST(MapSharedMemory, RefusesWhatIsNoFileInMemory) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const UniqueFd reader(pipe[0]), writer(pipe[1]);
  EXPECT_THAT(why_refused(reader), HasSubstr("F_GET_SEALS"));
  EXPECT_THAT(why_refused(UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0))),
              HasSubstr("F_GET_SEALS"));
  EXPECT_THAT(why_refused(UniqueFd(::open("/dev/zero", O_RDONLY | O_CLOEXEC))), HasSubstr("F_GET_SEALS"));
  EXPECT_THAT(why_refused(UniqueFd(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC))), testing::Not(""));
  EXPECT_THAT(why_refused(UniqueFd()), HasSubstr("F_GET_SEALS"));
}

/// They may be used up when a page is touched first, which ends the toucher.
TEST(MapSharedMemory, RefusesHugePagesOfAPool) {
  const UniqueFd file(::memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!file) GTEST_SKIP() << "the kernel has none";
  ASSERT_EQ(::ftruncate(file.get(), 2 << 20), 0);
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_THAT(why_refused(file), HasSubstr("not a file in memory"));
}

TEST(MapSharedMemory, RefusesNothingAndTooMuch) {
  EXPECT_THAT(why_refused(sealed(0, F_SEAL_SHRINK)), HasSubstr("empty"));
  EXPECT_THAT(why_refused(sealed(std::uint64_t{1} << 62, F_SEAL_SHRINK)), HasSubstr("larger than"));
  EXPECT_THAT(why_refused(sealed(8 * page, F_SEAL_SHRINK), 4 * page), HasSubstr("larger than"));
}

// --- what is kept of peers

const auto now = PeerMappings::Clock::now();

wire::MemoryTold told(std::uint32_t number, std::uint64_t address) {
  return {.number = number, .reserved = 0, .address = address, .ticket = {.owner = 1, .number = number}};
}

/// As a peer that has told, and whose descriptor has come.
void open(PeerMappings& mappings, PeerId peer, std::uint32_t number, const SharedMemory& memory,
          std::uint64_t address) {
  mappings.told(peer, told(number, address), now);
  EXPECT_EQ(mappings.arrived(peer, number, memory.file), std::nullopt);
}

TEST(PeerMappings, FindTheBytesOfAnAllocationByItsNumber) {
  const SharedMemory first = made(2 * page);
  const SharedMemory second = made(page);
  first.range.data()[page] = std::byte{11};
  second.range.data()[0] = std::byte{22};
  PeerMappings mappings;
  open(mappings, 3, 1, first, 0x1000'0000);
  open(mappings, 4, 1, second, 0x1000'0000);  // another peer
  const auto found = mappings.find(3, 1, 0x1000'0000 + page, page);
  EXPECT_EQ(found.state, PeerMappings::State::mapped);
  ASSERT_TRUE(found.data);
  EXPECT_EQ(*found.data, std::byte{11});
  EXPECT_EQ(*mappings.find(4, 1, 0x1000'0000, page).data, std::byte{22});
  EXPECT_EQ(mappings.find(3, 2, 0x1000'0000, 1).state, PeerMappings::State::unknown);
  EXPECT_EQ(mappings.find(5, 1, 0x1000'0000, 1).state, PeerMappings::State::unknown);
}

TEST(PeerMappings, HaveNoBytesOutsideOfAnAllocation) {
  const SharedMemory memory = made(2 * page);
  PeerMappings mappings;
  constexpr std::uint64_t base = 0x1000'0000;
  open(mappings, 1, 1, memory, base);
  constexpr std::uint64_t all = 2 * page;
  const std::array<std::array<std::uint64_t, 2>, 8> outside{{{base, all + 1},
                                                             {base - 1, 2},
                                                             {base + all, 1},
                                                             {base + 1, all},
                                                             {base + 1, ~std::uint64_t{0}},
                                                             {0, 1},
                                                             {~std::uint64_t{0}, 2},
                                                             {base + all + 1, 0}}};
  for (const auto& [address, bytes] : outside) {
    const auto found = mappings.find(1, 1, address, bytes);
    EXPECT_EQ(found.state, PeerMappings::State::mapped);
    EXPECT_FALSE(found.data) << address << ' ' << bytes;
  }
  EXPECT_TRUE(mappings.find(1, 1, base, all).data);
}

/// The same addresses, after the peer has freed what lay there.
TEST(PeerMappings, DoNotTakeOldMemoryForNew) {
  const SharedMemory before = made(page);
  const SharedMemory after = made(page);
  before.range.data()[0] = std::byte{1};
  after.range.data()[0] = std::byte{2};
  PeerMappings mappings;
  open(mappings, 1, 1, before, 0x5000);
  EXPECT_EQ(mappings.find(1, 2, 0x5000, 1).state, PeerMappings::State::unknown);
  open(mappings, 1, 2, after, 0x5000);
  EXPECT_EQ(*mappings.find(1, 2, 0x5000, 1).data, std::byte{2});
  mappings.forget(1, 1);
  EXPECT_EQ(mappings.find(1, 1, 0x5000, 1).state, PeerMappings::State::unknown);
  EXPECT_EQ(*mappings.find(1, 2, 0x5000, 1).data, std::byte{2});
  open(mappings, 1, 2, before, 0x5000);  // told once more
  EXPECT_EQ(*mappings.find(1, 2, 0x5000, 1).data, std::byte{1});
  EXPECT_EQ(mappings.size(), 1U);
}

TEST(PeerMappings, WaitForTheDescriptorAndRememberARefusal) {
  const SharedMemory memory = made(page);
  PeerMappings mappings;
  mappings.told(1, told(7, 0x5000), now);
  EXPECT_EQ(mappings.find(1, 7, 0x5000, 1).state, PeerMappings::State::awaited);
  const auto awaited = mappings.awaited(1, 7);
  ASSERT_TRUE(awaited);
  EXPECT_EQ(awaited->ticket.number, 7U);
  EXPECT_TRUE(mappings.arrived(1, 7, sealed(page, 0)));
  EXPECT_EQ(mappings.find(1, 7, 0x5000, 1).state, PeerMappings::State::refused);
  EXPECT_FALSE(mappings.find(1, 7, 0x5000, 1).data);
  EXPECT_FALSE(mappings.awaited(1, 7));
  mappings.told(1, told(8, 0x5000), now);
  mappings.refuse(1, 8);
  EXPECT_EQ(mappings.find(1, 8, 0x5000, 0).state, PeerMappings::State::refused);
  EXPECT_EQ(mappings.find(1, 8, 0x5000, 0).data, nullptr);
  mappings.refuse(1, 9);
  mappings.forget(1, 9);
  EXPECT_EQ(mappings.arrived(1, 9, memory.file), std::nullopt);
  EXPECT_EQ(mappings.size(), 2U);
}

TEST(PeerMappings, KeepTheLastUsedWithinTheirLimits) {
  std::vector<SharedMemory> all;
  PeerMappings mappings({.entries = 4, .bytes = 8 * page});
  for (std::uint32_t number = 1; number <= 4; ++number) {
    all.push_back(made(page));
    open(mappings, 1, number, all.back(), 0x10000 * number);
  }
  EXPECT_TRUE(mappings.find(1, 1, 0x10000, 1).data);  // 2 is the oldest now
  all.push_back(made(page));
  open(mappings, 1, 5, all.back(), 0x50000);
  EXPECT_EQ(mappings.size(), 4U);
  EXPECT_EQ(mappings.find(1, 2, 0x20000, 1).state, PeerMappings::State::unknown);
  EXPECT_TRUE(mappings.find(1, 1, 0x10000, 1).data);
  EXPECT_EQ(mappings.bytes(), 4 * page);
  const SharedMemory large = made(7 * page);
  open(mappings, 1, 6, large, 0x60000);
  EXPECT_LE(mappings.bytes(), 8 * page);
  EXPECT_TRUE(mappings.find(1, 6, 0x60000, 7 * page).data);
  const SharedMemory too_large = made(9 * page);
  mappings.told(1, told(7, 0x70000), now);
  EXPECT_TRUE(mappings.arrived(1, 7, too_large.file));
  mappings.forget(1);
  EXPECT_EQ(mappings.size(), 0U);
  EXPECT_EQ(mappings.bytes(), 0U);
}

TEST(PeerMappings, OfAPeerThatTellsWithoutEndStayFew) {
  PeerMappings mappings({.entries = 8, .bytes = any_size});
  for (std::uint32_t number = 1; number < 1000; ++number)
    mappings.told(1, told(number, number), now);
  EXPECT_EQ(mappings.size(), 8U);
}

// --- what this process has

TEST(OwnAllocations, AreFoundByWhatLiesInThemAndNumberedOnce) {
  OwnAllocations own(3);
  auto& first = own.add(made(2 * page));
  const std::byte* const data = first.memory.range.data();
  const std::uint32_t number = first.number;
  EXPECT_EQ(first.told, std::vector<bool>(3));
  EXPECT_EQ(own.find(data, 2 * page), &first);
  EXPECT_EQ(own.find(data + page, page), &first);
  EXPECT_EQ(own.find(data + page, page + 1), nullptr);
  EXPECT_EQ(own.find(data - 1, 2), nullptr);
  EXPECT_EQ(own.find(data + 2 * page, 0), nullptr);
  EXPECT_EQ(own.find(nullptr, 0), nullptr);
  EXPECT_EQ(own.find(data, ~std::uint64_t{0}), nullptr);
  EXPECT_EQ(own.find(number), &first);
  EXPECT_EQ(own.find(std::uint32_t{0}), nullptr);
  OwnAllocations::free(first);
  EXPECT_EQ(own.find(data, 1), nullptr);
  EXPECT_EQ(own.find(number), &first);
  OwnAllocations::remove(first);
  EXPECT_EQ(own.find(number), nullptr);
  EXPECT_NE(own.add(made(page)).number, number);
}

TEST(OwnAllocations, HaveRoomForSoMany) {
  OwnAllocations own(2);
  std::vector<std::uint32_t> numbers;
  for (std::size_t i = 0; i < OwnAllocations::most; ++i) {
    ASSERT_TRUE(own.has_room());
    numbers.push_back(own.add(made(page)).number);
  }
  EXPECT_FALSE(own.has_room());
  OwnAllocations::remove(*own.find(numbers[7]));
  EXPECT_TRUE(own.has_room());
  EXPECT_GT(own.add(made(page)).number, numbers.back());
  EXPECT_FALSE(own.has_room());
}

}  // namespace
}  // namespace isthmus::memory_test
