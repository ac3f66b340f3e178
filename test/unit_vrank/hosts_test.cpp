// What processes of several hosts say to each other, between threads of this one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "vrank/hosts/address.hpp"
#include "vrank/hosts/dialer.hpp"
#include "vrank/hosts/handshake.hpp"
#include "vrank/hosts/job_layout.hpp"
#include "vrank/hosts/meeting_book.hpp"
#include "vrank/process/move_steps.hpp"

namespace isthmus::vrank::hosts_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Process = JobLayout::Process;

TEST(AJobLayout, DealsEachHostsRanksToProcesses) {
  const auto layout = JobLayout::parse("secret:2:3,4", 7);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->hosts, 2U);
  EXPECT_THAT(layout->processes,
              ElementsAre(Process{0, 2, 0}, Process{2, 1, 0}, Process{3, 2, 1}, Process{5, 2, 1}));
  EXPECT_EQ(layout->process_of(2).first, 2U);
  EXPECT_EQ(layout->process_of(6).first, 5U);
}

TEST(AJobLayout, IsOfOneHostWhereNoneAreNamed) {
  const auto layout = JobLayout::parse("secret:3", 5);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->hosts, 1U);
  EXPECT_THAT(layout->processes, ElementsAre(Process{0, 3, 0}, Process{3, 2, 0}));
}

TEST(AJobLayout, RefusesWhatMakesNoSense) {
  for (const char* const word : {"", "secret", "secret:0", "secret:x", "secret:2:3,3", "secret:2:8",
                                 "secret:2:0,7", "secret:2:3,", "secret:2:3,x"})
    EXPECT_FALSE(JobLayout::parse(word, 7)) << word;
}

MeetingWords words(std::uint64_t first) {
  return {first, 0, 0, 0};
}

TEST(AMeetingBook, IsFullWhenAllHaveSpoken) {
  MeetingBook book(3);
  const std::array first{Statement{.rank = 2, .reserved = 0, .words = words(20)}};
  const std::array others{Statement{.rank = 0, .reserved = 0, .words = words(5)},
                          Statement{.rank = 1, .reserved = 0, .words = words(6)}};
  EXPECT_FALSE(book.add(1, first));
  EXPECT_FALSE(book.add(1, first)) << "said twice";
  EXPECT_FALSE(book.add(2, others)) << "of the next meeting";
  EXPECT_TRUE(book.add(1, others));
  EXPECT_THAT(book.close(), ElementsAre(words(5), words(6), words(20)));
  EXPECT_EQ(book.number(), 2U);
}

TEST(AMeetingBook, TakesNothingOfRanksThatAreNot) {
  MeetingBook book(1);
  const std::array stranger{Statement{.rank = 7, .reserved = 0, .words = words(1)}};
  EXPECT_FALSE(book.add(1, stranger));
}

ProcessAddress an_address() {
  ProcessAddress address;
  address.key = {1, 2, 3};
  address.port = 4711;
  address.ips = {{1}, {2}};
  address.likeness = {.program = 1, .libraries = 2, .processor = 3, .region = 4};
  return address;
}

TEST(AnAddress, IsReadAsItWasWritten) {
  const auto read = ProcessAddress::unpack(an_address().pack());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->key, an_address().key);
  EXPECT_EQ(read->port, 4711);
  EXPECT_EQ(read->ips, an_address().ips);
  EXPECT_EQ(read->likeness, an_address().likeness);
}

TEST(AnAddress, IsNotReadFromSomethingElse) {
  const std::string text = an_address().pack();
  EXPECT_FALSE(ProcessAddress::unpack(""));
  EXPECT_FALSE(ProcessAddress::unpack(text.substr(0, text.size() - 1)));
  EXPECT_FALSE(ProcessAddress::unpack(text + 'x'));
  EXPECT_FALSE(ProcessAddress::unpack(std::string(text.size(), 'x')));
}

TEST(Likenesses, SayWhatDiffers) {
  const Likeness one{.program = 1, .libraries = 2, .processor = 3, .region = 4};
  Likeness other = one;
  EXPECT_EQ(difference(one, other), "");
  other.libraries = 7;
  EXPECT_THAT(difference(one, other), HasSubstr("other libraries"));
  other.program = 7;
  EXPECT_THAT(difference(one, other), HasSubstr("the program"));
}

/// Takes one call, and answers who proves to know `key`.
class Answering {
 public:
  explicit Answering(const wire::JobKey& key) : key_(key) {
    auto listener = listen_at(address);
    listener_ = std::move(*listener);
    address.key = key;
    thread_ = std::jthread([this](const std::stop_token& ends) {
      while (!ends.stop_requested() && !subject) {
        OwnFd visitor(descriptors_, descriptors_.open([this] {
          return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        }));
        if (!visitor) continue;
        auto reception = Reception::greet(std::move(visitor));
        auto heard = Reception::Heard::nothing_yet;
        while (reception && heard == Reception::Heard::nothing_yet)
          heard = reception->hear(key_);
        if (heard != Reception::Heard::proved) continue;
        line_ = reception->accept(key_);
        subject = reception->subject();
      }
    });
  }
  void join() { thread_.join(); }

  ProcessAddress address;
  std::optional<CallSubject> subject;

 private:
  OwnDescriptors descriptors_;
  const wire::JobKey key_;
  UniqueFd listener_;
  OwnFd line_;
  std::jthread thread_;
};

constexpr CallSubject subject{.kind = CallKind::carry, .from = 1, .to = 2, .epoch = 3};

TEST(ACall, ComesToWhoseKeyIsKnown) {
  Answering other({7});
  OwnDescriptors own;
  const auto line = call_process(other.address, subject, own);
  ASSERT_TRUE(line) << line.error().text();
  EXPECT_TRUE(own.has(line->get()));
  other.join();
  EXPECT_EQ(other.subject->kind, CallKind::carry);
  EXPECT_EQ(other.subject->to, 2U);
}

TEST(ACall, IsRefusedWithoutTheKey) {
  Answering other({7});
  OwnDescriptors own;
  ProcessAddress wrong = other.address;
  wrong.key = {8};
  EXPECT_FALSE(call_process(wrong, subject, own));
  EXPECT_FALSE(other.subject);
}

/// Listens at 127.0.0.`last`, at the port of `address` if that has one, with room for one who is not
/// accepted.
UniqueFd listen_on_loopback(ProcessAddress& address, std::uint8_t last) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(0x7f000000U | last);
  at.sin_port = htons(address.port);
  socklen_t length = sizeof at;
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), length), 0);
  EXPECT_EQ(::listen(socket.get(), 0), 0);
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &length), 0);
  address.port = ntohs(at.sin_port);
  return socket;
}

ProcessAddress::Ip loopback(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, last};
}

std::uint8_t last_of_peer(int socket) {
  sockaddr_in peer{};
  socklen_t length = sizeof peer;
  EXPECT_EQ(::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length), 0);
  return static_cast<std::uint8_t>(ntohl(peer.sin_addr.s_addr));
}

TEST(ADialer, GoesOnAtOnceFromAnAddressThatRefuses) {
  ProcessAddress address;
  const UniqueFd good = listen_on_loopback(address, 1);
  address.ips = {loopback(2), loopback(1)};
  OwnDescriptors own;
  Dialer dialer(address, own);
  const OwnFd made = dialer.next();
  ASSERT_TRUE(made) << dialer.reasons();
  EXPECT_EQ(last_of_peer(made.get()), 1);
  EXPECT_TRUE(own.has(made.get()));
  EXPECT_FALSE(dialer.next());
  EXPECT_THAT(dialer.reasons(), HasSubstr("refused"));
}

TEST(ADialer, TriesTheNextBesideOneThatDoesNotAnswer) {
  ProcessAddress address;
  const UniqueFd good = listen_on_loopback(address, 1);
  const UniqueFd full = listen_on_loopback(address, 2);
  address.ips = {loopback(2)};
  OwnDescriptors own;
  Dialer filling(address, own);
  const OwnFd waits_there = filling.next();  // there is no room for another
  ASSERT_TRUE(waits_there);
  address.ips = {loopback(2), loopback(1), loopback(3)};
  const auto begun = std::chrono::steady_clock::now();
  Dialer dialer(address, own);
  const OwnFd made = dialer.next();
  ASSERT_TRUE(made) << dialer.reasons();
  EXPECT_EQ(last_of_peer(made.get()), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(3)) << "waits for the first";
  EXPECT_FALSE(dialer.next());  // what waits still is given up in the end
  EXPECT_THAT(dialer.reasons(), HasSubstr("timed out"));
}

TEST(ADialer, SaysThatThereIsNoAddress) {
  const ProcessAddress nowhere;
  OwnDescriptors own;
  Dialer dialer(nowhere, own);
  EXPECT_FALSE(dialer.next());
  EXPECT_EQ(dialer.reasons(), "it has no address");
}

TEST(StepsOfAMove, AreAboutTheRanksOwnMemory) {
  using Kind = MoveStep::Kind;
  const RankSpace space(1, 4), neighbour(2, 4);
  const auto is_good = [&](MoveStep step) { return check({&step, 1}, space).has_value(); };
  EXPECT_TRUE(is_good({Kind::match, 0, 0, 0, 1}));
  EXPECT_TRUE(is_good({Kind::map, 0, space.heap(), 4096, 0}));
  EXPECT_TRUE(is_good({Kind::copy, 0, space.end() - 4096, 4096, 0}));
  EXPECT_FALSE(is_good({Kind::copy, 0, space.end() - 4096, 8192, 0}));
  EXPECT_FALSE(is_good({Kind::map, 0, neighbour.heap(), 4096, 0}));
  EXPECT_FALSE(is_good({Kind::copy, 0, 4096, 4096, 0}));
  EXPECT_FALSE(is_good({static_cast<Kind>(17), 0, space.heap(), 4096, 0}));
}

}  // namespace
}  // namespace isthmus::vrank::hosts_test
