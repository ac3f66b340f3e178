#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "fake_key_values.hpp"
#include "launch/meeting/meeting.hpp"
#include "launch/region/device.hpp"

namespace isthmus::launch::device_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Outcome = Result<Met>;

/// A file that stands in for the memory of a device.
class File {
 public:
  explicit File(std::uint64_t bytes) {
    const int fd = ::mkstemp(path_.data());
    EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
    ::close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::unlink(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "isthmus-device-XXXXXX";
};

struct Guest {
  Place place = Place::here().value();
  Settings settings = [] {
    Settings settings;
    settings.warn = false;
    return settings;
  }();
};

/// Guests in virtual machines as `machines` numbers them, which have `device`.
std::vector<Guest> guests(const std::vector<std::uint8_t>& machines, const std::string& device) {
  std::vector<Guest> all(machines.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].place.boot[0] ^= machines[rank];
    all[rank].settings.ivshmem = device;
  }
  return all;
}

std::vector<Outcome> hold(const std::vector<Guest>& guests) {
  FakeSpace space(static_cast<std::uint32_t>(guests.size()));
  std::vector<Outcome> outcomes;
  for (std::size_t rank = 0; rank < guests.size(); ++rank)
    outcomes.emplace_back(fail(ErrorClass::other, "nothing yet"));
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < guests.size(); ++rank)
    threads.emplace_back([&, rank] {
      FakeKeyValues launcher(space, rank);
      outcomes[rank] = meet(launcher, guests[rank].settings, guests[rank].place, std::nullopt);
      space.leave();
    });
  threads.clear();
  return outcomes;
}

std::vector<std::uint32_t> members(const Outcome& outcome) {
  EXPECT_TRUE(outcome) << outcome.error().text();
  return outcome ? outcome->members : std::vector<std::uint32_t>{};
}

TEST(MeetingInADevice, JoinsRanksOfSeveralMachines) {
  const File file(32 << 20);
  auto outcomes = hold(guests({0, 1, 0, 1}, file.path()));
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(members(outcomes[rank]), ElementsAre(0, 1, 2, 3));
    const SharedRegion& region = outcomes[rank]->region;
    EXPECT_EQ(region.device, file.path());
    EXPECT_EQ(region.view.header().idle, wire::IdlePolicy::nap);
    EXPECT_THAT(outcomes[rank]->refusals, IsEmpty());
    region.view.block(rank).connections.store(100 + rank);
  }
  for (std::uint32_t slot = 0; slot < 4; ++slot)
    EXPECT_EQ(outcomes[3]->region.view.block(slot).connections.load(), 100 + slot);
  EXPECT_NE(outcomes[0]->region.view.block(0).place.boot, outcomes[0]->region.view.block(1).place.boot);
  outcomes.clear();  // frees the piece
  EXPECT_FALSE(Device::open(file.path(), "")->get()->enter({}));
  for (const Outcome& again : hold(guests({0, 1}, file.path())))
    EXPECT_THAT(members(again), ElementsAre(0, 1));
}

TEST(MeetingInADevice, IsForSeveralMachinesOnly) {
  const File file(32 << 20);
  for (const Outcome& outcome : hold(guests({0, 0}, file.path()))) {
    EXPECT_THAT(members(outcome), ElementsAre(0, 1));
    EXPECT_EQ(outcome->region.device, "");
  }
}

TEST(MeetingInADevice, LeavesMachinesWithOtherMemoryApart) {
  const File left(32 << 20);
  const File right(32 << 20);
  auto all = guests({0, 1, 2, 2, 3}, left.path());
  for (const std::size_t rank : {2U, 3U, 4U})
    all[rank].settings.ivshmem = right.path();
  all.push_back(guests({4}, "off")[0]);
  const auto outcomes = hold(all);
  EXPECT_THAT(members(outcomes[1]), ElementsAre(0, 1));
  EXPECT_THAT(members(outcomes[2]), ElementsAre(2, 3, 4));
  EXPECT_THAT(members(outcomes[5]), ElementsAre(5));
}

TEST(MeetingInADevice, GoesOnWithinEachMachineWhereTheMemoryIsTooSmall) {
  const File file(192 * 1024);
  const auto outcomes = hold(guests({0, 1, 0, 1}, file.path()));
  EXPECT_THAT(members(outcomes[0]), ElementsAre(0, 2));
  EXPECT_THAT(members(outcomes[3]), ElementsAre(1, 3));
  ASSERT_EQ(outcomes[0]->refusals.size(), 2U);
  EXPECT_EQ(outcomes[0]->refusals[0].rank, 1U);
  EXPECT_THAT(outcomes[0]->refusals[0].text, HasSubstr("another virtual machine"));
  EXPECT_THAT(outcomes[0]->refusals[0].text, HasSubstr("4 ranks need"));
}

TEST(MeetingInADevice, NamesADeviceThatIsNone) {
  for (const char* name : {"/no/such/file", "0000:77:00.0"})
    for (const Outcome& outcome : hold(guests({0}, name))) {
      ASSERT_FALSE(outcome);
      EXPECT_THAT(outcome.error().text(), HasSubstr(std::string("ISTHMUS_IVSHMEM='") + name + "'"));
    }
}

TEST(Device, IsFoundByItsPciIds) {
  namespace fs = std::filesystem;
  const File memory(1 << 20);
  const fs::path folder = memory.path() + ".d";
  const auto make = [&](const char* address, const char* vendor, const char* device) {
    fs::create_directories(folder / address);
    std::ofstream(folder / address / "vendor") << vendor << "\n";
    std::ofstream(folder / address / "device") << device << "\n";
    fs::create_symlink(memory.path(), folder / address / "resource2");
  };
  make("0000:00:02.0", "0x1af4", "0x1000");
  make("0000:00:01.0", "0x8086", "0x1110");
  EXPECT_FALSE(Device::find({}, folder).value());
  make("0000:00:05.0", "0x1af4", "0x1110");
  make("0000:00:04.0", "0x1af4", "0x1110");
  EXPECT_EQ(Device::find({}, folder).value()->name(), "0000:00:04.0");
  Settings settings;
  settings.ivshmem = "0000:00:05.0";
  EXPECT_EQ(Device::find(settings, folder).value()->name(), "0000:00:05.0");
  settings.ivshmem = "0000:00:02.0";
  EXPECT_FALSE(Device::find(settings, folder));
  settings.ivshmem = "off";
  EXPECT_FALSE(Device::find(settings, folder).value());
  fs::remove_all(folder);
}

TEST(Device, KeepsTheJobAliveAndTheNextGetsWhatItHasLeft) {
  const File file(4 << 20);
  const auto open = [&] {
    return Device::open(file.path(), "file",
                        {.lock = std::chrono::seconds(1), .silence = std::chrono::milliseconds(400)})
        .value();
  };
  const auto found = [&](std::uint8_t job) { return open()->found(2, 2, {16, 4096}, {.key = {job}}); };
  std::vector<SharedRegion> regions;
  for (std::uint8_t job = 1; job < 99; ++job) {
    auto region = found(job);
    if (!region) {
      EXPECT_THAT(region.error().text(), HasSubstr("free"));
      break;
    }
    regions.push_back(std::move(*region));
  }
  ASSERT_GT(regions.size(), 2U);  // all of whom live
  EXPECT_TRUE(open()->enter({2}));
  regions.erase(regions.begin());
  auto next = found(100);
  ASSERT_TRUE(next) << next.error().text();
  EXPECT_FALSE(open()->enter({1}));
}

}  // namespace
}  // namespace isthmus::launch::device_test
