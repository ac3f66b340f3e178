#include "launch/broker.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <future>

namespace isthmus::launch {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr wire::JobKey key{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

std::uint64_t fresh_socket() {
  std::uint64_t value = 0;
  EXPECT_EQ(::getrandom(&value, sizeof value, 0), ssize_t{sizeof value});
  return value;
}

UniqueFd some_file() {
  return UniqueFd(::memfd_create("some", MFD_CLOEXEC));
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

/// Waits until the other side has hung up; false if it has not after a second, or has said something.
bool is_cut_off(int socket, int milliseconds = 1000) {
  pollfd watched{socket, POLLIN, 0};
  char byte = 0;
  return ::poll(&watched, 1, milliseconds) == 1 && ::recv(socket, &byte, 1, MSG_DONTWAIT) <= 0;
}

class BrokerTest : public testing::Test {
 protected:
  void open(Broker::Limits limits = {}) {
    auto opened = Broker::open(socket, 4, limits);
    ASSERT_TRUE(opened) << opened.error().text();
    broker = std::move(*opened);
  }
  [[nodiscard]] wire::VisitRequest request() const { return {.socket = socket, .rank = 7, .key = key}; }
  [[nodiscard]] UniqueFd connect() const {
    auto connected = connect_to(BrokerAddress::abstract(socket), 5);
    EXPECT_TRUE(connected) << connected.error().text();
    return connected ? std::move(*connected) : UniqueFd();
  }
  /// Whether someone with the key still gets what there is.
  [[nodiscard]] bool serves() const {
    return visit(BrokerAddress::abstract(socket), request(), 5).has_value();
  }

  const std::uint64_t socket = fresh_socket();
  std::unique_ptr<Broker> broker;
};

TEST_F(BrokerTest, HandsTheRegionToWhoeverShowsTheKeyAndKnowsWhoItWas) {
  open();
  broker->admit(key);
  const UniqueFd file = some_file();
  broker->offer_region(UniqueFd(::dup(file.get())));
  const auto got = visit(BrokerAddress::abstract(socket), request(), 5);
  ASSERT_TRUE(got) << got.error().text();
  struct stat a{};
  struct stat b{};
  ASSERT_EQ(::fstat(file.get(), &a), 0);
  ASSERT_EQ(::fstat(got->get(), &b), 0);
  EXPECT_EQ(a.st_ino, b.st_ino);
  EXPECT_EQ(::fcntl(got->get(), F_GETFD), FD_CLOEXEC);
  const auto visitors = broker->visitors();
  ASSERT_EQ(visitors.size(), 1U);
  EXPECT_EQ(visitors[0].rank, 7U);
  EXPECT_EQ(visitors[0].credentials.pid, ::getpid());
  EXPECT_EQ(visitors[0].credentials.uid, ::getuid());
}

TEST_F(BrokerTest, LetsGuestsWaitForTheKeyAndTheRegion) {
  open();
  auto waiting = std::async(
      std::launch::async, [&] { return visit(BrokerAddress::abstract(socket), request(), 10).has_value(); });
  EXPECT_EQ(waiting.wait_for(20ms), std::future_status::timeout);
  broker->admit(key);
  EXPECT_EQ(waiting.wait_for(20ms), std::future_status::timeout);
  broker->offer_region(some_file());
  EXPECT_TRUE(waiting.get());
}

TEST_F(BrokerTest, ServesAFolderToo) {
  open();
  std::string folder = testing::TempDir() + "isthmus-broker-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  // Longer than an address can hold.
  const std::string deep = folder + "/" + std::string(120, 'x');
  ASSERT_EQ(::mkdir(deep.c_str(), 0700), 0);
  for (const std::string& where : {folder, deep}) {
    const auto opened = broker->open_folder(where);
    ASSERT_TRUE(opened) << opened.error().text();
  }
  broker->admit(key);
  broker->offer_region(some_file());
  for (const std::string& where : {folder, deep}) {
    const auto address = BrokerAddress::in_folder(where, socket);
    ASSERT_TRUE(address);
    EXPECT_TRUE(visit(*address, request(), 5)) << where;
  }
  broker.reset();
  EXPECT_EQ(::rmdir(deep.c_str()), 0) << "something is left in it";
  EXPECT_EQ(::rmdir(folder.c_str()), 0) << "something is left in it";
}

TEST_F(BrokerTest, SaysWhyAFolderIsNone) {
  open();
  const auto opened = broker->open_folder("/no/such/folder");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().text(), HasSubstr("No such file"));
}

TEST_F(BrokerTest, CutsOffAWrongKeyWithoutAWord) {
  open();
  broker->admit(key);
  broker->offer_region(some_file());
  wire::VisitRequest wrong = request();
  wrong.key[15] ^= 1;
  const auto got = visit(BrokerAddress::abstract(socket), wrong, 5);
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().text(), HasSubstr("hangs up"));
  EXPECT_TRUE(broker->visitors().empty());
  EXPECT_TRUE(serves());
}

TEST_F(BrokerTest, CutsOffGarbage) {
  open();
  broker->admit(key);
  broker->offer_region(some_file());
  const std::string right(reinterpret_cast<const char*>(&static_cast<const wire::VisitRequest&>(request())),
                          sizeof(wire::VisitRequest));
  std::string other_magic = right;
  other_magic[0] ^= 1;
  std::string other_version = right;
  other_version[8] ^= 1;
  std::string other_wish = right;
  other_wish[12] ^= 1;
  for (const std::string& bytes :
       {std::string("hello"), std::string(100'000, 'x'), right.substr(1), right + "x", other_magic,
        other_version, other_wish, std::string(1, '\0')}) {
    const UniqueFd guest = connect();
    ASSERT_TRUE(send_packet(guest.get(), bytes.data(), bytes.size()));
    EXPECT_TRUE(is_cut_off(guest.get())) << bytes.substr(0, 60);
  }
  EXPECT_TRUE(serves());
}

TEST_F(BrokerTest, KeepsNoDescriptorThatAStrangerSends) {
  open();
  broker->admit(key);
  const UniqueFd file = some_file();
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    const UniqueFd guest = connect();
    ASSERT_TRUE(send_packet(guest.get(), "x", 1, file.get()));
    EXPECT_TRUE(is_cut_off(guest.get()));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(BrokerTest, CutsOffTheSilentAfterAWhileAndServesOthersMeanwhile) {
  open({.silence = 200ms});
  broker->admit(key);
  broker->offer_region(some_file());
  const UniqueFd silent = connect();
  EXPECT_TRUE(serves());
  EXPECT_FALSE(is_cut_off(silent.get(), 0));
  EXPECT_TRUE(is_cut_off(silent.get(), 5000));
}

TEST_F(BrokerTest, LetsTheSilentMakeRoomForOthers) {
  open({.silence = 60s, .grace = 10ms, .guests = 4});
  broker->admit(key);
  broker->offer_region(some_file());
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 40; ++i)
    silent.push_back(connect());
  EXPECT_TRUE(serves());
  EXPECT_TRUE(is_cut_off(silent.front().get()));
}

TEST_F(BrokerTest, ServesMoreThanItHasRoomForAtATime) {
  open({.silence = 60s, .guests = 4});
  std::vector<std::future<bool>> visitors;
  for (int i = 0; i < 20; ++i)
    visitors.push_back(std::async(std::launch::async, [&] { return serves(); }));
  broker->admit(key);
  broker->offer_region(some_file());
  for (auto& visitor : visitors)
    EXPECT_TRUE(visitor.get());
}

TEST_F(BrokerTest, HangsUpOnWaitingGuestsWhenItGoes) {
  open();
  broker->admit(key);
  auto waiting =
      std::async(std::launch::async, [&] { return visit(BrokerAddress::abstract(socket), request(), 30); });
  while (broker->visitors().empty())
    std::this_thread::sleep_for(1ms);
  broker.reset();
  const auto got = waiting.get();
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().text(), HasSubstr("hangs up"));
}

TEST_F(BrokerTest, LeavesNoDescriptorAndNoThread) {
  const std::size_t before = open_descriptors();
  open();
  broker->admit(key);
  broker->offer_region(some_file());
  EXPECT_TRUE(serves());
  broker.reset();
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(BrokerTest, SweepsAwayWhatKilledOnesHaveLeft) {
  std::string folder = testing::TempDir() + "isthmus-broker-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const auto dead = BrokerAddress::in_folder(folder, fresh_socket());
  const auto young = BrokerAddress::in_folder(folder, fresh_socket());
  const auto alive = BrokerAddress::in_folder(folder, fresh_socket());
  ASSERT_TRUE(dead && young && alive);
  ASSERT_TRUE(listen_at(*dead));
  ASSERT_TRUE(listen_at(*young));
  const auto listening = listen_at(*alive);
  ASSERT_TRUE(listening);
  const timespec old[2]{{1000, 0}, {1000, 0}};
  for (const auto* address : {&*dead, &*alive})
    ASSERT_EQ(::utimensat(AT_FDCWD, address->path().c_str(), old, 0), 0);
  open();
  ASSERT_TRUE(broker->open_folder(folder));
  EXPECT_NE(::access(dead->path().c_str(), F_OK), 0);
  EXPECT_EQ(::access(young->path().c_str(), F_OK), 0);
  EXPECT_EQ(::access(alive->path().c_str(), F_OK), 0);
  broker.reset();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace isthmus::launch
