#include "wire/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <set>
#include <thread>

namespace isthmus::wire::device_directory_test {
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
  [[nodiscard]] DeviceDirectory open(DeviceDirectory::Patience patience = short_patience) const {
    auto directory = DeviceDirectory::open(memory(), patience);
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
  // On a busy machine the thread below may not run for a tenth of a second.
  DeviceDirectory patient = bar.open({.lock = 500ms, .silence = 60ms});
  const std::jthread restless([&](const std::stop_token& end) {
    for (std::uint64_t i = 1; !end.stop_requested(); ++i) {
      bar.header().lock = i;
      std::this_thread::sleep_for(10us);
    }
  });
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(patient.take(key(2), 1));
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

/// Keeps this thread, and what it forks, on one processor. Two processors that sleep in turn are woken at
/// each instruction: 3.8 s instead of 2.2 on a quiet machine, and once 26 s (2 virtual cores).
class OneProcessor {
 public:
  OneProcessor() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;
  ~OneProcessor() { ::sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

/// A process that can be held between two of its instructions, as a hypervisor pauses a machine.
class Machine {
 public:
  template <class Body>
  explicit Machine(Body body) : pid_(::fork()) {
    if (pid_ != 0) {
      ::waitpid(pid_, &status_, 0);
      return;
    }
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    ::_exit(body());
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine() {
    if (runs()) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, &status_, 0);
    }
  }

  [[nodiscard]] bool runs() const { return WIFSTOPPED(status_); }
  /// One instruction.
  void step() {
    ::ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr);
    ::waitpid(pid_, &status_, 0);
  }
  /// Until the memory has changed `times`, then `more` instructions.
  void step_past_changes(std::span<const std::byte> memory, int times, int more) {
    std::vector<std::byte> seen(memory.begin(), memory.end());
    while (times > 0 && runs()) {
      step();
      if (std::memcmp(seen.data(), memory.data(), seen.size()) == 0) continue;
      std::memcpy(seen.data(), memory.data(), seen.size());
      --times;
    }
    while (more-- > 0 && runs())
      step();
  }
  /// Lets it go on to its end; its exit status.
  int finish() {
    while (runs()) {
      ::ptrace(PTRACE_CONT, pid_, nullptr, nullptr);
      ::waitpid(pid_, &status_, 0);
    }
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }

 private:
  OneProcessor one_;
  pid_t pid_;
  int status_ = 0;
};

bool overlap(const DeviceDirectory::Tenancy& a, const DeviceDirectory::Tenancy& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// What stands in the directory itself, without the counters of what happens in it.
constexpr std::size_t directory_bytes = sizeof(DeviceHeader) + 3 * sizeof(DeviceSlot);

TEST(DeviceDirectory, LeavesALivingJobAloneWhereItsTakerWasPausedAtAnyPoint) {
  bool ended = false;
  for (int change = 1; !ended; ++change) {
    for (const int more : {0, 3, 12, 40}) {
      const Bar bar(8 * unit);
      const Bar results(2 * unit);
      auto* const theirs = new (results.memory().data()) DeviceDirectory::Tenancy;
      DeviceDirectory directory = bar.open();
      Machine machine([&] {
        DeviceDirectory own = bar.open();
        const auto taken = own.take(key(1), 2 * unit);
        if (taken) *theirs = *taken;
        return taken ? 0 : 1;
      });
      machine.step_past_changes(bar.memory().first(directory_bytes), change, more);
      ended = !machine.runs();
      const auto living = directory.take(key(2), 2 * unit);
      ASSERT_TRUE(living) << living.error().text();
      const auto member = directory.enter(key(2));
      ASSERT_TRUE(member);
      const bool succeeded = machine.finish() == 0;
      const std::string where = "after change " + std::to_string(change) + " and " + std::to_string(more);
      EXPECT_TRUE(directory.beat(*living)) << where << ": its slot was freed";
      const auto found = directory.enter(key(2));
      ASSERT_TRUE(found) << where;
      EXPECT_EQ(found->offset, living->offset) << where;
      EXPECT_EQ(found->bytes, living->bytes) << where;
      EXPECT_EQ(found->number, living->number) << where;
      if (succeeded) EXPECT_FALSE(overlap(*theirs, *living)) << where;
      if (succeeded) EXPECT_TRUE(directory.beat(*theirs)) << where;
      directory.leave(*found);
      directory.leave(*member);
      EXPECT_TRUE(directory.beat(*living)) << where << ": its members were miscounted";
      directory.leave(*living);
      EXPECT_FALSE(directory.beat(*living)) << where << ": its members were miscounted";
    }
    ASSERT_LT(change, 50);
  }
}

/// Where to hold a machine that runs `body`, in instructions from its first on: evenly over the whole way,
/// and close to each change of the memory, on both sides. Each instruction would be thousands of machines,
/// and half of all the steps again for each.
template <class Body>
std::set<int> telling_points(std::span<const std::byte> memory, Body body) {
  std::set<int> points;
  std::vector<std::byte> seen(memory.begin(), memory.end());
  Machine machine(body);
  int steps = 0;
  for (machine.step(); machine.runs(); machine.step()) {
    ++steps;
    if (std::memcmp(seen.data(), memory.data(), seen.size()) == 0) continue;
    std::memcpy(seen.data(), memory.data(), seen.size());
    for (const int beside : {-12, -3, -2, -1, 0, 1, 3, 12, 40})
      points.insert(std::max(1, steps + beside));
  }
  for (int i = 1; i <= 40; ++i)
    points.insert(std::max(1, steps * i / 40));
  points.insert(steps + 1);  // it has ended
  return points;
}

TEST(DeviceDirectory, LeavesALivingJobAloneWhereOneWhoseSlotItHasGotWasPausedInLeaving) {
  const auto leaver = [](DeviceDirectory& directory) {
    const auto dead = directory.take(key(1), 2 * unit);
    EXPECT_TRUE(dead);
    return [own = directory, dead = dead.value_or(DeviceDirectory::Tenancy{})]() mutable {
      own.leave(dead);
      return 0;
    };
  };
  const Bar traced(8 * unit);
  DeviceDirectory first = traced.open();
  const auto points = telling_points(traced.memory().first(directory_bytes), leaver(first));
  ASSERT_GT(points.size(), 40U);
  for (const int steps : points) {
    const Bar bar(8 * unit);
    DeviceDirectory directory = bar.open();
    Machine machine(leaver(directory));
    for (int i = 0; i < steps && machine.runs(); ++i)
      machine.step();
    // Nobody beats for 60 ms: the piece is the next job's.
    [[maybe_unused]] const auto freed = directory.reclaim();
    const auto living = directory.take(key(2), 2 * unit);
    ASSERT_TRUE(living) << living.error().text();
    const auto member = directory.enter(key(2));
    ASSERT_TRUE(member);
    machine.finish();
    directory.leave(*member);
    EXPECT_TRUE(directory.beat(*living)) << "after " << steps << " instructions: its members were miscounted";
  }
}

TEST(DeviceDirectory, ReclaimsWhatWasTakenByHalf) {
  const Bar bar(8 * unit);
  DeviceDirectory directory = bar.open();
  for (int change = 1; change <= 3; ++change) {
    Machine machine([&] {
      DeviceDirectory own = bar.open();
      return own.take(key(1), 2 * unit) ? 0 : 1;
    });
    machine.step_past_changes(bar.memory().first(directory_bytes), change, 0);
  }  // killed
  [[maybe_unused]] const auto freed = directory.reclaim();
  EXPECT_TRUE(directory.take(key(2), 7 * unit));
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
      JobKey named{};
      std::memcpy(named.data(), bar.slots()[job].key.data(), sizeof named);
      const auto piece = directory.enter(named);
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
}  // namespace isthmus::wire::device_directory_test
