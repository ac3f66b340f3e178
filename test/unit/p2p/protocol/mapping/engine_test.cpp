// Messages out of memory that both sides map, between two engines, and from a hostile peer.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/system/memory_file.hpp"
#include "engine_hostile.hpp"
#include "engine_ranks.hpp"
#include "launch/visit/descriptor_box.hpp"
#include "p2p/protocol/mapping/own_allocations.hpp"
#include "wire/mapping.hpp"

namespace isthmus::engine_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_hostile::EngineHostile;
using testing_ranks::first_wrong;
using testing_ranks::message;

constexpr const char* mapped_way = "rendezvous, receiver copies from mapped memory";
constexpr std::size_t page = 4096;

/// What this process has mapped of peers.
int mappings_to_read() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.contains(" r--s ") && line.contains("memfd:isthmus") ? 1 : 0;
  return count;
}

std::shared_ptr<launch::DescriptorBox> box_of(const UniqueFd& socket, std::uint32_t rank) {
  return std::make_shared<launch::DescriptorBox>(UniqueFd(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0)), rank);
}

/// Ranks in one thread.
class MappedPair : public testing::Test {
 protected:
  void start(const Settings& first = {}, const Settings& second = {}, bool has_box = true,
             std::uint32_t ranks = 2) {
    auto made = launch::local_jobs(ranks, {64, 64 * 1024}, wire::IdlePolicy::spin);
    ASSERT_TRUE(made);
    jobs = std::move(*made);
    auto socket = launch::DescriptorBox::make();
    ASSERT_TRUE(socket);
    box = std::move(*socket);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      Settings settings = rank == 0 ? first : second;
      if (has_box) jobs[rank].box = box_of(box, rank);
      settings.cma = CmaSetting::off;
      auto engine = Engine::make(jobs[rank], settings);
      ASSERT_TRUE(engine);
      engines.push_back(std::move(*engine));
      worlds.push_back(&engines[rank]->open_context(Engine::world_context, ranks));
    }
  }
  std::unique_ptr<Allocation> allocate(std::size_t bytes, std::size_t seed = 1, std::size_t rank = 0) {
    auto memory = engines[rank]->allocate(bytes, page);
    EXPECT_TRUE(memory);
    if (memory) std::ranges::copy(message(seed, bytes), static_cast<std::byte*>(memory->data()));
    return memory;
  }
  void progress() {
    for (auto& engine : engines)
      engine->progress();
  }
  /// What has arrived.
  std::vector<std::byte> carry(const void* data, std::uint64_t bytes, PeerId from = 0, PeerId to = 1) {
    std::vector<std::byte> in(bytes);
    const int source = static_cast<int>(from);
    Request* send = engines[from]->start_send({to, 0, source, 5}, Payload::of(data, bytes));
    Request* receive = engines[to]->start_receive(*worlds[to], source, 5, Payload::of(in.data(), bytes));
    while ((send && !send->complete) || !receive->complete)
      progress();
    EXPECT_EQ(receive->error(), 0);
    if (send) engines[from]->free(send);
    engines[to]->free(receive);
    return in;
  }
  void expect_carried(const Allocation& memory, std::uint64_t offset, std::uint64_t bytes,
                      std::size_t seed = 1) {
    const auto all = message(seed, offset + bytes);
    const auto in = carry(static_cast<const std::byte*>(memory.data()) + offset, bytes);
    EXPECT_TRUE(std::ranges::equal(in, std::span(all).subspan(offset)));
  }
  std::string explained(std::size_t rank) { return engines[rank]->explain(ExplainSetting::full); }

  std::vector<launch::Job> jobs;
  UniqueFd box;
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<MatchContext*> worlds;
};

TEST_F(MappedPair, GoByOneCopyFromAnywhereInTheMemory) {
  start();
  const auto memory = allocate(300'000);
  expect_carried(*memory, 0, 300'000);
  EXPECT_EQ(mappings_to_read(), 1);
  expect_carried(*memory, 12'345, 100'000);
  expect_carried(*memory, 299'999 - 20'000, 20'001);
  EXPECT_EQ(mappings_to_read(), 1);
  EXPECT_THAT(explained(1), HasSubstr("memory of MPI_Alloc_mem: mapping"));
  EXPECT_THAT(explained(1),
              testing::ContainsRegex(std::string(mapped_way) + " +sent 0 messages, 0 bytes; received 3"));
  EXPECT_THAT(engines[1]->explain(ExplainSetting::json), HasSubstr(R"("mapped":{"steps":[)"));
}

TEST_F(MappedPair, LetGoOfMemoryThatIsFreed) {
  start();
  auto memory = allocate(100'000);
  expect_carried(*memory, 0, 100'000);
  EXPECT_EQ(mappings_to_read(), 1);
  memory.reset();
  progress();
  EXPECT_EQ(mappings_to_read(), 0);
}

TEST_F(MappedPair, NeverTakeOldMemoryForNew) {
  start();
  for (std::size_t seed = 1; seed < 50; ++seed) {
    const auto memory = allocate(50'000, seed);
    expect_carried(*memory, 0, 50'000, seed);
  }
  progress();
  EXPECT_EQ(mappings_to_read(), 0);
  EXPECT_THAT(explained(1), HasSubstr("received 49 messages"));
}

TEST_F(MappedPair, AreOfSoManyAllocationsAtATime) {
  start();
  std::vector<std::unique_ptr<Allocation>> all;
  for (std::size_t i = 0; i < OwnAllocations::most; ++i) {
    all.push_back(allocate(20'000, i));
    expect_carried(*all.back(), 0, 20'000, i);
  }
  EXPECT_FALSE(engines[0]->allocate(20'000, page));
  EXPECT_THAT(explained(0),
              HasSubstr("1 allocation cannot be mapped by other ranks: a rank shares 256 at a time"));
  all[3].reset();
  EXPECT_TRUE(engines[0]->allocate(20'000, page));
}

/// More than it keeps mapped, from two ranks.
TEST_F(MappedPair, AreToldAgainWhatTheReceiverHasLetGoOf) {
  start({}, {}, true, 3);
  const auto mapped_from = [&](PeerId from) {
    const std::string text = explained(2);
    const auto traffic = text.find("traffic with rank " + std::to_string(from));
    const auto line = text.find(mapped_way, traffic);
    return std::stoi(text.substr(text.find("received ", line) + 9));
  };
  constexpr std::size_t each = OwnAllocations::most;
  std::vector<std::unique_ptr<Allocation>> all;
  for (PeerId from : {0U, 1U})
    for (std::size_t i = 0; i < each; ++i) {
      all.push_back(allocate(20'000, all.size(), from));
      EXPECT_EQ(carry(all.back()->data(), 20'000, from, 2), message(all.size() - 1, 20'000));
    }
  EXPECT_EQ(mapped_from(0), each);
  EXPECT_EQ(mapped_from(1), each);
  EXPECT_EQ(mappings_to_read(), 256);
  // The first time it comes another way, and the second time it has been told.
  for (int times = 0; times < 3; ++times) {
    EXPECT_EQ(carry(all.front()->data(), 20'000, 0, 2), message(0, 20'000));
    EXPECT_EQ(mapped_from(0), each + static_cast<std::size_t>(times)) << times;
  }
  EXPECT_EQ(mappings_to_read(), 256);
}

TEST_F(MappedPair, TakeNoneWhereItIsOfNoUse) {
  start();
  EXPECT_FALSE(engines[0]->allocate(0, page));
  EXPECT_FALSE(engines[0]->allocate(16 * 1024, page));
  EXPECT_TRUE(engines[0]->allocate(16 * 1024 + 1, page));
  EXPECT_FALSE(engines[0]->allocate(std::size_t{1} << 50, page));
}

TEST_F(MappedPair, GoAnotherWayWhereTheyAreSwitchedOff) {
  Settings off;
  off.mapping = MappingSetting::off;
  start(off);
  EXPECT_FALSE(engines[0]->allocate(100'000, page));
  EXPECT_THAT(explained(0), Not(HasSubstr("MPI_Alloc_mem")));
}

TEST_F(MappedPair, GoAnotherWayWhereTheReceiverHasThemSwitchedOff) {
  Settings off;
  off.mapping = MappingSetting::off;
  start({}, off);
  const auto memory = allocate(100'000);
  expect_carried(*memory, 0, 100'000);
  expect_carried(*memory, 5, 90'000);
  EXPECT_EQ(mappings_to_read(), 0);
  EXPECT_THAT(explained(1),
              HasSubstr("memory of MPI_Alloc_mem is not mapped: switched off by ISTHMUS_MAPPING=off"));
  // Its descriptor does not stay in the box.
  EXPECT_EQ(::recv(box.get(), nullptr, 0, MSG_DONTWAIT), -1);
}

TEST_F(MappedPair, SayWhyWhereNothingHandsDescriptorsOn) {
  start({}, {}, false);
  EXPECT_FALSE(engines[0]->allocate(100'000, page));
  EXPECT_THAT(explained(0), HasSubstr("nothing hands descriptors between these ranks"));
}

/// The box is full of what others have not taken: the messages wait for nobody.
TEST_F(MappedPair, GoAnotherWayWhileTheBoxIsFull) {
  start();
  const auto stranger = box_of(box, 7);
  std::uint64_t left = 0;
  while (stranger->leave(9, {.owner = 77, .number = left + 1}, box.get()) && left < 10'000)
    ++left;
  ASSERT_LT(left, 10'000U);
  const auto memory = allocate(100'000);
  expect_carried(*memory, 0, 100'000);
  EXPECT_EQ(mappings_to_read(), 0);
  EXPECT_THAT(explained(1), Not(HasSubstr(mapped_way)));
  const auto owner = box_of(box, 9);
  for (std::uint64_t number = 1; number <= left; ++number)
    EXPECT_TRUE(owner->take_now({.owner = 77, .number = number}));
  expect_carried(*memory, 0, 100'000);
  EXPECT_THAT(explained(1), HasSubstr(mapped_way));
}

TEST_F(MappedPair, LetGoOfAPeerThatIsLost) {
  start();
  const auto memory = allocate(100'000);
  expect_carried(*memory, 0, 100'000);
  engines[1]->lose(0, "a test", false);
  EXPECT_EQ(mappings_to_read(), 0);
}

// --- hostile peers

class MappedHostile : public EngineHostile {
 protected:
  void SetUp() override {
    EngineHostile::SetUp();
    auto socket = launch::DescriptorBox::make();
    ASSERT_TRUE(socket);
    box = std::move(*socket);
    jobs[0].box = box_of(box, 0);
    peer = box_of(box, 1);
    // No process of the kernel's: so that no way but the ring is left.
    place().probe_address = 0;
  }
  void tell(std::uint32_t number, const UniqueFd& file, std::uint64_t address = base) {
    const wire::DescriptorTicket ticket{.owner = 42, .number = number};
    ASSERT_TRUE(peer->leave(0, ticket, file.get()));
    write(wire::CellKind::memory_told, wire::MemoryTold{number, 0, address, ticket});
  }
  void offer(std::uint64_t bytes, std::uint64_t address, std::uint32_t allocation) {
    write(wire::CellKind::ready_to_send,
          wire::SendOffer{1, bytes, address, wire::SendMemory::plain, 0, allocation});
  }
  static UniqueFd sealed(std::uint64_t bytes, int seals = F_SEAL_SHRINK) {
    UniqueFd file = make_memory_file();
    EXPECT_TRUE(set_size(file, bytes));
    EXPECT_EQ(::pwrite(file.get(), "abc", 3, 0), 3);
    EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
    return file;
  }
  /// Kinds of what the engine has answered.
  std::vector<wire::CellKind> answers() {
    std::vector<wire::CellKind> kinds;
    if (region().directory(1)[0].load() == 0) return kinds;
    RingReader from = in();
    while (const wire::Cell* cell = from.front()) {
      kinds.push_back(cell->header.kind);
      from.pop();
    }
    return kinds;
  }

  static constexpr std::uint64_t base = 0x7000'0000;
  static constexpr auto done = wire::CellKind::share_done;
  static constexpr auto asked_for = wire::CellKind::clear_to_send;
  static constexpr auto missed = wire::CellKind::memory_missed;
  UniqueFd box;
  std::shared_ptr<launch::DescriptorBox> peer;
};

TEST_F(MappedHostile, AnHonestOneIsRead) {
  tell(1, sealed(8 * page));
  Request* receive = start_receive(5 * page);
  offer(5 * page, base, 1);
  progress();
  EXPECT_TRUE(receive->complete);
  EXPECT_EQ(memory.back()[2], std::byte{'c'});
  EXPECT_EQ(answers(), std::vector{done});
}

TEST_F(MappedHostile, NothingOutsideOfItsMemoryIsRead) {
  tell(1, sealed(2 * page));
  constexpr std::uint64_t all = 2 * page;
  for (const auto& [address, bytes] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {base, all + 1}, {base - 1, 8}, {base + all, 1}, {base + 1, 1U << 20}, {~std::uint64_t{0}, 2}}) {
    Request* receive = start_receive(bytes);
    offer(bytes, address, 1);
    progress();
    EXPECT_FALSE(receive->complete) << address << ' ' << bytes;
  }
  EXPECT_EQ(answers(), std::vector<wire::CellKind>(5, asked_for));
}

TEST_F(MappedHostile, WhatMayShrinkIsNotMapped) {
  tell(1, sealed(4 * page, F_SEAL_GROW));
  Request* receive = start_receive(page);
  offer(page, base, 1);
  progress();
  EXPECT_FALSE(receive->complete);
  EXPECT_EQ(mappings_to_read(), 0);
  EXPECT_EQ(answers(), std::vector{asked_for});
}

TEST_F(MappedHostile, APipeIsNotMapped) {
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  const UniqueFd reader(pipe[0]), writer(pipe[1]);
  tell(1, reader);
  Request* receive = start_receive(page);
  offer(page, base, 1);
  progress();
  EXPECT_FALSE(receive->complete);
  EXPECT_EQ(answers(), std::vector{asked_for});
}

TEST_F(MappedHostile, ANumberThatWasNeverToldIsAskedFor) {
  tell(1, sealed(4 * page));
  Request* receive = start_receive(page);
  offer(page, base, 2);
  progress();
  EXPECT_FALSE(receive->complete);
  EXPECT_EQ(answers(), (std::vector{missed, asked_for}));
}

TEST_F(MappedHostile, WhatWasFreedIsReadNoMore) {
  tell(1, sealed(4 * page));
  write(wire::CellKind::memory_freed, wire::MemoryNumber{1, 0});
  Request* receive = start_receive(page);
  offer(page, base, 1);
  progress();
  EXPECT_FALSE(receive->complete);
  EXPECT_EQ(mappings_to_read(), 0);
  EXPECT_EQ(answers(), (std::vector{missed, asked_for}));
}

TEST_F(MappedHostile, ADescriptorThatNeverComesIsNotWaitedFor) {
  write(wire::CellKind::memory_told, wire::MemoryTold{1, 0, base, {.owner = 42, .number = 1}});
  Request* receive = start_receive(page);
  offer(page, base, 1);
  progress();
  EXPECT_FALSE(receive->complete);
  EXPECT_EQ(answers(), std::vector{asked_for});
}

TEST_F(MappedHostile, NumbersWithoutSenseChangeNothing) {
  write(wire::CellKind::memory_told, wire::MemoryTold{0, 0, base, {.owner = 42, .number = 1}});
  write(wire::CellKind::memory_told, wire::MemoryTold{1, 0, base, {}});
  write(wire::CellKind::memory_freed, wire::MemoryNumber{99, 0});
  write(wire::CellKind::memory_missed, wire::MemoryNumber{0, 0});
  write(wire::CellKind::memory_missed, wire::MemoryNumber{~0U, 0});
  progress();
  EXPECT_TRUE(answers().empty());
}

}  // namespace
}  // namespace isthmus::engine_test
