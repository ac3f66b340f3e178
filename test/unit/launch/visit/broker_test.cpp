#include "launch/visit/broker.hpp"

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

namespace isthmus::launch::broker_test {
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

/// Waits until the other side has hung up; false if it has not after a second, or has said more than its
/// greeting.
bool is_cut_off(int socket, int milliseconds = 1000) {
  pollfd watched{socket, POLLIN, 0};
  for (int packets = 0; packets < 2; ++packets) {
    wire::VisitGreeting greeting;
    if (::poll(&watched, 1, milliseconds) != 1) return false;
    if (receive_packet(socket, &greeting, sizeof greeting) <= 0) return true;
  }
  return false;
}

/// Listens under a name that is not a broker's, and lets what a visitor and the true broker say pass between.
class Between {
 public:
  Between(std::uint64_t truth, const Inquiry& inquiry) {
    std::uint64_t name = fresh_socket();
    auto listener = listen_at(BrokerAddress::abstract(name));
    EXPECT_TRUE(listener);
    visitor = std::async(std::launch::async,
                         [=] { return visit(BrokerAddress::abstract(name), inquiry, 10).has_value(); });
    pollfd called{listener->get(), POLLIN, 0};
    EXPECT_EQ(::poll(&called, 1, 5000), 1);
    to_visitor = UniqueFd(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    auto connected = connect_to(BrokerAddress::abstract(truth), 5);
    EXPECT_TRUE(connected);
    to_broker = std::move(*connected);
    const auto greeting = next<wire::VisitGreeting>(to_broker.get());
    EXPECT_TRUE(send_packet(to_visitor.get(), &greeting, sizeof greeting));
    request = next<wire::VisitRequest>(to_visitor.get());
  }

  std::future<bool> visitor;  ///< whether it has got what it wanted
  UniqueFd to_visitor;
  UniqueFd to_broker;
  wire::VisitRequest request;
  UniqueFd reply;  ///< which has come with the request

 private:
  template <class Packet>
  Packet next(int from) {
    Packet packet;
    pollfd watched{from, POLLIN, 0};
    EXPECT_EQ(::poll(&watched, 1, 5000), 1);
    EXPECT_EQ(receive_packet(from, &packet, sizeof packet, &reply), long{sizeof packet});
    return packet;
  }
};

/// Whether nothing can be read from it.
bool is_empty(const UniqueFd& socket) {
  char byte = 0;
  return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) <= 0;
}

class BrokerTest : public testing::Test {
 protected:
  void open(Broker::Limits limits = {}) {
    auto opened = Broker::open(socket, 4, limits);
    ASSERT_TRUE(opened) << opened.error().text();
    broker = std::move(*opened);
  }
  [[nodiscard]] Inquiry inquiry() const { return {.socket = socket, .rank = 7, .key = key}; }
  [[nodiscard]] UniqueFd connect() const {
    auto connected = connect_to(BrokerAddress::abstract(socket), 5);
    EXPECT_TRUE(connected) << connected.error().text();
    return connected ? std::move(*connected) : UniqueFd();
  }
  /// Whether someone with the key still gets what there is.
  [[nodiscard]] bool serves() const {
    return visit(BrokerAddress::abstract(socket), inquiry(), 5).has_value();
  }

  const std::uint64_t socket = fresh_socket();
  std::unique_ptr<Broker> broker;
};

TEST_F(BrokerTest, HandsTheRegionToWhoeverHasTheKeyAndKnowsWhoItWas) {
  open();
  broker->admit(key);
  const UniqueFd file = some_file();
  const UniqueFd box = some_file();
  broker->offer_region(UniqueFd(::dup(file.get())), UniqueFd(::dup(box.get())));
  const auto got = visit(BrokerAddress::abstract(socket), inquiry(), 5);
  ASSERT_TRUE(got) << got.error().text();
  struct stat a{};
  struct stat b{};
  ASSERT_EQ(::fstat(file.get(), &a), 0);
  ASSERT_EQ(::fstat(got->region.get(), &b), 0);
  EXPECT_EQ(a.st_ino, b.st_ino);
  EXPECT_EQ(::fcntl(got->region.get(), F_GETFD), FD_CLOEXEC);
  ASSERT_EQ(::fstat(box.get(), &a), 0);
  ASSERT_EQ(::fstat(got->box.get(), &b), 0);
  EXPECT_EQ(a.st_ino, b.st_ino);
  EXPECT_EQ(::fcntl(got->box.get(), F_GETFD), FD_CLOEXEC);
  const auto visitors = broker->visitors();
  ASSERT_EQ(visitors.size(), 1U);
  EXPECT_EQ(visitors[0].rank, 7U);
  EXPECT_EQ(visitors[0].credentials.pid, ::getpid());
  EXPECT_EQ(visitors[0].credentials.uid, ::getuid());
}

TEST_F(BrokerTest, LetsGuestsWaitForTheKeyAndTheRegion) {
  open();
  auto waiting = std::async(
      std::launch::async, [&] { return visit(BrokerAddress::abstract(socket), inquiry(), 10).has_value(); });
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
    EXPECT_TRUE(visit(*address, inquiry(), 5)) << where;
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
  Inquiry wrong = inquiry();
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
  const wire::VisitRequest unproved{.socket = socket, .reply = 1};
  const std::string right(reinterpret_cast<const char*>(&unproved), sizeof unproved);
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

TEST_F(BrokerTest, TellsNeitherKeyNorRegionToWhoStandsBetween) {
  open();
  broker->admit(key);
  broker->offer_region(some_file());
  Between between(socket, inquiry());
  const std::string said(reinterpret_cast<const char*>(&between.request), sizeof between.request);
  EXPECT_FALSE(said.contains(std::string(key.begin(), key.end())));
  ASSERT_TRUE(
      send_packet(between.to_broker.get(), &between.request, sizeof between.request, between.reply.get()));
  EXPECT_TRUE(between.visitor.get());
  EXPECT_TRUE(is_cut_off(between.to_broker.get()));
  EXPECT_TRUE(is_empty(between.reply));
}

TEST_F(BrokerTest, AnswersOnNoOtherSocketThanTheVisitors) {
  open();
  broker->admit(key);
  broker->offer_region(some_file());
  Between between(socket, inquiry());
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd mine(ends[0]);
  const UniqueFd theirs(ends[1]);
  struct stat status{};
  ASSERT_EQ(::fstat(theirs.get(), &status), 0);
  for (const std::uint64_t claimed : {between.request.reply, std::uint64_t{status.st_ino}}) {
    const UniqueFd guest = connect();
    between.request.reply = claimed;
    ASSERT_TRUE(send_packet(guest.get(), &between.request, sizeof between.request, theirs.get()));
    EXPECT_TRUE(is_cut_off(guest.get()));
  }
  between.request.reply = status.st_ino;
  ASSERT_TRUE(send_packet(between.to_broker.get(), &between.request, sizeof between.request, theirs.get()));
  EXPECT_TRUE(is_cut_off(between.to_broker.get()));
  EXPECT_TRUE(is_empty(mine));
  between.reply.reset();
  EXPECT_FALSE(between.visitor.get());
}

TEST_F(BrokerTest, TakesNoRequestASecondTime) {
  open();
  broker->admit(key);
  broker->offer_region(some_file());
  Between between(socket, inquiry());
  for (const UniqueFd& again : {connect(), connect()}) {
    ASSERT_TRUE(send_packet(again.get(), &between.request, sizeof between.request, between.reply.get()));
    EXPECT_TRUE(is_cut_off(again.get())) << "the greeting was another one";
  }
  between.reply.reset();
  EXPECT_FALSE(between.visitor.get());
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
      std::async(std::launch::async, [&] { return visit(BrokerAddress::abstract(socket), inquiry(), 30); });
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
}  // namespace isthmus::launch::broker_test
