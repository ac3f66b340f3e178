#include "wire/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

namespace isthmus::wire {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::uint64_t unit = DeviceDirectory::unit;
constexpr DeviceDirectory::Patience short_patience{.lock = 60ms, .silence = 60ms};

/// Memory that forked processes share, as a BAR is shared by machines.
class Bar {
 public:
  explicit Bar(std::uint64_t bytes) : bytes_(bytes) {
    void* address =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(address, MAP_FAILED);
    address_ = static_cast<std::byte*>(address);
  }
  Bar(const Bar&) = delete;
  Bar& operator=(const Bar&) = delete;
  ~Bar() { ::munmap(address_, bytes_); }

  [[nodiscard]] std::span<std::byte> memory() const { return {address_, bytes_}; }
  [[nodiscard]] DeviceDirectory open() const {
    auto directory = DeviceDirectory::open(memory(), short_patience);
    EXPECT_TRUE(directory) << directory.error().text();
    return *directory;
  }
  [[nodiscard]] DeviceHeader& header() const { return *reinterpret_cast<DeviceHeader*>(address_); }
  [[nodiscard]] DeviceSlot* slots() const {
    return reinterpret_cast<DeviceSlot*>(address_ + sizeof(DeviceHeader));
  }

 private:
  std::uint64_t bytes_;
  std::byte* address_ = nullptr;
};

JobKey key(std::uint8_t number) {
  return JobKey{number};
}

TEST(DeviceDirectory, IsTheSameForAllWhoMapTheMemoryAndAnotherElsewhere) {
  const Bar bar(1 << 20);
  const Bar other(1 << 20);
  EXPECT_EQ(bar.open().id(), bar.open().id());
  EXPECT_NE(bar.open().id(), other.open().id());
}

TEST(DeviceDirectory, RefusesWhatItHasNotMade) {
  const Bar small(unit);
  EXPECT_FALSE(DeviceDirectory::open(small.memory()));
  const Bar used(1 << 20);
  std::memset(used.memory().data(), 'x', 100);
  const auto foreign = DeviceDirectory::open(used.memory());
  ASSERT_FALSE(foreign);
  EXPECT_THAT(foreign.error().text(), HasSubstr("something else"));
  const Bar behind(1 << 20);
  behind.memory()[5000] = std::byte{1};
  EXPECT_FALSE(DeviceDirectory::open(behind.memory()));
  EXPECT_EQ(behind.header().lock, 0U) << "what belongs to others has been written to";
  const Bar bar(1 << 20);
  static_cast<void>(bar.open());
  EXPECT_FALSE(DeviceDirectory::open(bar.memory().first(1 << 19)));
  bar.header().version = device_version + 1;
  const auto release = DeviceDirectory::open(bar.memory());
  ASSERT_FALSE(release);
  EXPECT_THAT(release.error().text(), HasSubstr("another release"));
}

TEST(DeviceDirectory, GivesJobsPiecesThatDoNotOverlapAndFreesThemWithTheLastMember) {
  const Bar bar(10 * unit);
  DeviceDirectory mine = bar.open();
  DeviceDirectory theirs = bar.open();
  const auto first = mine.take(key(1), 3 * unit);
  const auto second = theirs.take(key(2), 3 * unit - 5);
  const auto third = mine.take(key(3), 3 * unit);
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(first->offset, unit);
  EXPECT_EQ(second->offset, 4 * unit);
  EXPECT_EQ(second->bytes, 3 * unit);
  EXPECT_EQ(third->offset, 7 * unit);
  EXPECT_FALSE(mine.take(key(4), 1));
  const auto member = theirs.enter(key(1));
  ASSERT_TRUE(member);
  EXPECT_EQ(member->offset, first->offset);
  EXPECT_FALSE(theirs.enter(key(4)));
  mine.leave(*first);
  EXPECT_FALSE(mine.take(key(4), unit));
  theirs.leave(*member);
  EXPECT_FALSE(theirs.beat(*member));
  const auto fourth = mine.take(key(4), 2 * unit);
  ASSERT_TRUE(fourth);
  EXPECT_EQ(fourth->offset, unit);
}

TEST(DeviceDirectory, HasRoomForALimitedNumberOfJobs) {
  const Bar bar(1 << 24);
  DeviceDirectory directory = bar.open();
  for (std::uint32_t job = 0; job < device_jobs; ++job)
    EXPECT_TRUE(directory.take(key(static_cast<std::uint8_t>(job)), 1));
  const auto more = directory.take(key(99), 1);
  ASSERT_FALSE(more);
  EXPECT_THAT(more.error().text(), HasSubstr("30 jobs"));
}

TEST(DeviceDirectory, ReclaimsWhatTheDeadHaveLeftAndNothingElse) {
  const Bar bar(5 * unit);
  DeviceDirectory directory = bar.open();
  EXPECT_FALSE(directory.reclaim().value());
  const pid_t child = ::fork();
  if (child == 0) {
    DeviceDirectory theirs = bar.open();
    const bool taken = theirs.take(key(1), 2 * unit).has_value();
    ::_exit(taken ? 0 : 1);  // without leaving
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  const auto alive = directory.take(key(2), 2 * unit);
  ASSERT_TRUE(alive);
  EXPECT_FALSE(directory.take(key(3), unit));
  {
    const std::jthread heart([&](const std::stop_token& end) {
      while (!end.stop_requested()) {
        directory.beat(*alive);
        std::this_thread::sleep_for(1ms);
      }
    });
    // Longer than a busy machine keeps a thread from its core.
    auto patient = DeviceDirectory::open(bar.memory(), {.lock = 60ms, .silence = 1s});
    ASSERT_TRUE(patient);
    EXPECT_TRUE(patient->reclaim().value());
  }
  EXPECT_FALSE(directory.enter(key(1)));
  EXPECT_TRUE(directory.enter(key(2)));
  EXPECT_TRUE(directory.take(key(3), 2 * unit));
}

TEST(DeviceDirectory, TakesTheLockFromTheDeadAndGivesUpOnThoseWhoPassItOn) {
  const Bar bar(1 << 20);
  DeviceDirectory directory = bar.open();
  bar.header().lock = 0xdead;
  EXPECT_TRUE(directory.take(key(1), 1));
  EXPECT_EQ(bar.header().lock, 0U);
  const std::jthread restless([&](const std::stop_token& end) {
    for (std::uint64_t i = 1; !end.stop_requested(); ++i) {
      bar.header().lock = i;
      std::this_thread::sleep_for(10us);
    }
  });
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(directory.take(key(2), 1));
}

TEST(DeviceDirectory, IsMadeOnceByManyProcessesThatTakeDifferentPieces) {
  const Bar bar(64 * unit);
  const Bar results(2 * unit);
  auto* const offsets = reinterpret_cast<std::uint64_t*>(results.memory().data());
  constexpr int processes = 8;
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto directory = DeviceDirectory::open(bar.memory());
      if (!directory) ::_exit(1);
      const auto piece = directory->take(key(static_cast<std::uint8_t>(i)), 2 * unit);
      if (!piece) ::_exit(2);
      offsets[i] = piece->offset;
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::sort(offsets, offsets + processes);
  for (int i = 0; i < processes; ++i)
    EXPECT_EQ(offsets[i], (1 + 2 * static_cast<std::uint64_t>(i)) * unit);
}

TEST(DeviceDirectory, StaysWithinTheMemoryWhateverStandsInIt) {
  const Bar bar(16 * unit);
  static_cast<void>(bar.open());
  std::mt19937_64 random(20);
  auto* const words = reinterpret_cast<std::uint64_t*>(bar.slots());
  constexpr std::size_t count = device_jobs * sizeof(DeviceSlot) / sizeof(std::uint64_t);
  for (int round = 0; round < 3000; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      // Numbers that nearly make sense are worse than nonsense.
      const std::uint64_t number = random();
      words[i] = number % 3 == 0   ? number
                 : number % 3 == 1 ? number % 20 * unit
                                   : ~std::uint64_t{0} - unit + 1;
    }
    DeviceDirectory directory = bar.open();
    for (std::uint32_t job = 0; job < device_jobs; ++job) {
      const auto piece = directory.enter(bar.slots()[job].key);
      if (!piece) continue;
      ASSERT_GE(piece->offset, unit);
      ASSERT_LE(piece->offset, 16 * unit);
      ASSERT_LE(piece->bytes, 16 * unit - piece->offset);
    }
    const auto taken = directory.take(key(7), random() % (17 * unit));
    if (taken) {
      ASSERT_LE(taken->offset + taken->bytes, 16 * unit);
      ASSERT_EQ(directory.memory(*taken).size(), taken->bytes);
      directory.leave(*taken);
    }
  }
}

TEST(RegionShapeFitting, TakesSmallerRingsWhereThePreferredOnesDoNotFit) {
  const RingGeometry preferred = RingGeometry::for_ranks(2);
  for (const std::uint32_t slots : {1U, 2U, 3U, 8U, 16U})
    for (const std::uint64_t bytes :
         {std::uint64_t{8} << 20, std::uint64_t{32} << 20, std::uint64_t{1} << 30}) {
      const auto shape = RegionShape::fitting(slots, 40, preferred, bytes);
      ASSERT_TRUE(shape) << slots << " in " << bytes << ": " << shape.error().text();
      const auto layout = RegionLayout::make(*shape);
      ASSERT_TRUE(layout);
      EXPECT_LE(layout->bytes, bytes);
      EXPECT_GE(shape->heap_bytes, bytes / 4 - 4096);
    }
  EXPECT_EQ(RegionShape::fitting(2, 2, preferred, 64 << 20)->geometry.data_bytes, preferred.data_bytes);
  EXPECT_LT(RegionShape::fitting(8, 8, preferred, 8 << 20)->geometry.data_bytes, preferred.data_bytes);
  const auto none = RegionShape::fitting(64, 64, preferred, 8 << 20);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().text(), HasSubstr("64 ranks need"));
}

}  // namespace
}  // namespace isthmus::wire
