#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "channel/network/watch.hpp"

namespace isthmus::network::watch_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t token_of_0 = 0x1111;
constexpr std::uint64_t token_of_1 = 0x2222;

wire::PortAddress address_of(const Watch& watch, std::uint64_t token) {
  wire::PortAddress address{.token = token, .watch_port = 0, .hosts = {}, .transport = {}};
  watch.describe(address);
  address.hosts = {htonl(INADDR_LOOPBACK)};
  return address;
}

UniqueFd connect_to(std::uint16_t port) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  name.sin_port = htons(port);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  return socket;
}

/// Whether the other side has closed it.
bool is_closed(const UniqueFd& socket) {
  char byte = 0;
  return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0;
}

class WatchTest : public testing::Test {
 protected:
  static Watch open(PeerId rank, std::uint64_t token, std::chrono::milliseconds patience = 10s) {
    auto watch = Watch::open({rank, 2}, token, patience);
    EXPECT_TRUE(watch) << watch.error().text();
    return std::move(*watch);
  }
  /// Both look until `done`, 5 s at most.
  template <class Done>
  bool look_until(Done done) {
    const auto end = Clock::now() + 5s;
    while (!done()) {
      if (Clock::now() > end) return false;
      look();
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }
  void look() {
    for (Watch* watch : {&zero, other})
      if (watch)
        for (Watch::Loss& loss : watch->look())
          losses.push_back(std::move(loss));
  }
  void look_for(std::chrono::milliseconds time) {
    const auto end = Clock::now() + time;
    while (Clock::now() < end) {
      look();
      std::this_thread::sleep_for(1ms);
    }
  }

  Watch zero = open(0, token_of_0);
  Watch* other = nullptr;
  std::vector<Watch::Loss> losses;
};

TEST_F(WatchTest, TellsOnceThatAPeerThatHasAnsweredIsGone) {
  {
    Watch one = open(1, token_of_1);
    other = &one;
    zero.begin(1, address_of(one, token_of_1));
    look_for(50ms);
    EXPECT_TRUE(losses.empty());
    other = nullptr;
  }
  ASSERT_TRUE(look_until([&] { return !losses.empty(); }));
  EXPECT_EQ(losses[0].peer, 1U);
  EXPECT_TRUE(losses[0].closed);
  look_for(20ms);
  EXPECT_EQ(losses.size(), 1U);
}

TEST_F(WatchTest, TellsTheSideThatWasConnectedToAsWell) {
  {
    Watch one = open(1, token_of_1);
    other = &one;
    one.begin(0, address_of(zero, token_of_0));
    look_for(50ms);
    other = nullptr;
  }
  EXPECT_TRUE(look_until([&] { return !losses.empty(); }));
}

/// A service that somebody else runs at the address that a peer has published too.
class StrangersService {
 public:
  enum class Manner { closes, echoes, babbles, resets };
  explicit StrangersService(Manner manner) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof name;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &bytes);
    port = ntohs(name.sin_port);
    thread_ = std::thread([this, manner] { serve(manner); });
  }
  ~StrangersService() { thread_.join(); }
  std::uint16_t port = 0;

 private:
  void serve(Manner manner) {
    pollfd called{listener_.get(), POLLIN, 0};
    if (::poll(&called, 1, 5000) != 1) return;
    const UniqueFd line(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    wire::WatchHello hello;
    const ssize_t heard = ::recv(line.get(), &hello, sizeof hello, manner == Manner::resets ? MSG_PEEK : 0);
    if (heard > 0 && manner == Manner::babbles)
      hello = {.sender = 1, .nonce = hello.nonce, .proof = hello.proof};
    if (heard > 0 && (manner == Manner::echoes || manner == Manner::babbles))
      ::send(line.get(), &hello, sizeof hello, MSG_NOSIGNAL);
  }

  UniqueFd listener_;
  std::thread thread_;
};

TEST_F(WatchTest, LosesNobodyForAStrangersServiceThatClosesOrAnswers) {
  using Manner = StrangersService::Manner;
  for (const Manner manner : {Manner::closes, Manner::echoes, Manner::babbles, Manner::resets}) {
    {
      const StrangersService service(manner);
      zero.begin(1, {.token = token_of_1,
                     .watch_port = service.port,
                     .hosts = {htonl(INADDR_LOOPBACK)},
                     .transport = {}});
      look_for(50ms);
    }
    look_for(50ms);
    EXPECT_TRUE(losses.empty()) << static_cast<int>(manner) << ": " << losses[0].why;
  }
}

TEST_F(WatchTest, SaysItsTokenToNobody) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof name;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  ASSERT_EQ(::listen(listener.get(), 8), 0);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &bytes);
  constexpr std::uint64_t token = 0x4142'4344'4546'4748;
  zero.begin(
      1,
      {.token = token, .watch_port = ntohs(name.sin_port), .hosts = {name.sin_addr.s_addr}, .transport = {}});
  look_for(20ms);
  const UniqueFd line(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::array<char, 100> heard{};
  const ssize_t count = ::recv(line.get(), heard.data(), heard.size(), MSG_DONTWAIT);
  ASSERT_EQ(count, ssize_t{sizeof(wire::WatchHello)});
  EXPECT_EQ(std::string_view(heard.data(), heard.size()).find("HGFEDCBA"), std::string_view::npos);
}

/// A peer's kernel, as far as a watch can tell: its process is not in MPI, so nobody answers a hello.
class SilentPeer {
 public:
  SilentPeer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof name;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &bytes);
    port_ = ntohs(name.sin_port);
  }
  [[nodiscard]] wire::PortAddress address() const {
    return {.token = token_of_1, .watch_port = port_, .hosts = {htonl(INADDR_LOOPBACK)}, .transport = {}};
  }
  void accept() {
    line_ = UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(line_);
  }
  /// From now on the host takes nothing in, and so answers nothing: no probe either.
  void fall_silent() {
    sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog program{.len = 1, .filter = &nothing};
    ASSERT_EQ(::setsockopt(line_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
  }

 private:
  UniqueFd listener_, line_;
  std::uint16_t port_ = 0;
};

TEST_F(WatchTest, LosesAPeerWhoseHostFallsSilentBeforeTheyHaveMetButNoneThatOnlyComputes) {
  SilentPeer silent, computing;
  zero.begin(1, silent.address());
  zero.begin(2, computing.address());
  look_for(50ms);
  silent.accept();
  computing.accept();
  silent.fall_silent();
  const auto end = Clock::now() + 10s;
  while (losses.empty() && Clock::now() < end) {
    look();
    std::this_thread::sleep_for(10ms);
  }
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].peer, 1U);
  EXPECT_FALSE(losses[0].closed);
  look_for(1s);
  EXPECT_EQ(losses.size(), 1U);
}

TEST_F(WatchTest, LosesNobodyForASilentStrangerWhileAnotherAddressIsThePeers) {
  SilentPeer stranger;
  Watch one = open(1, token_of_1);
  zero.begin(1, stranger.address());  // the same peer at another address: its process is not in MPI yet
  zero.begin(1, address_of(one, token_of_1));
  look_for(50ms);
  stranger.accept();
  stranger.fall_silent();
  look_for(std::chrono::seconds(Watch::silence_limit + 2));
  EXPECT_TRUE(losses.empty()) << losses[0].why;
  other = &one;
  look_for(50ms);
  EXPECT_TRUE(losses.empty()) << losses[0].why;
}

TEST_F(WatchTest, KeepsFewStrangersAndStillMeetsPeers) {
  constexpr std::size_t many = 3 * Watch::strangers_limit;
  std::vector<UniqueFd> strangers;
  for (std::size_t i = 0; i < many; ++i)
    strangers.push_back(connect_to(address_of(zero, token_of_0).watch_port));
  look_for(50ms);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count_if(strangers, is_closed)),
            many - Watch::strangers_limit);
  {
    Watch one = open(1, token_of_1);
    other = &one;
    one.begin(0, address_of(zero, token_of_0));
    look_for(50ms);
    other = nullptr;
  }
  EXPECT_TRUE(look_until([&] { return !losses.empty(); })) << "the peer was not met";
}

TEST_F(WatchTest, CutsOffWhoStaysSilentAlsoWhileNobodyElseCalls) {
  zero = open(0, token_of_0, 100ms);
  const UniqueFd stranger = connect_to(address_of(zero, token_of_0).watch_port);
  look_for(20ms);
  EXPECT_FALSE(is_closed(stranger));
  // As a sleeper does, who is woken by what is to be looked at.
  const auto end = Clock::now() + 5s;
  int wakes = 0;
  while (!is_closed(stranger) && Clock::now() < end) {
    pollfd watched{zero.descriptor(), POLLIN, 0};
    wakes += ::poll(&watched, 1, 1000);
    look();
  }
  EXPECT_TRUE(is_closed(stranger));
  EXPECT_LE(wakes, 5);
  look();
  pollfd watched{zero.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&watched, 1, 1500), 0) << "it ticks on with nobody there";
}

TEST_F(WatchTest, LetsASleeperSleepWhileThereAreNoDescriptorsAndAcceptsLater) {
  // In a process of its own, which runs out of them.
  const pid_t child = ::fork();
  if (child == 0) {
    Watch one = open(1, token_of_1);
    const wire::PortAddress address = address_of(zero, token_of_0);
    one.begin(0, address);
    std::vector<UniqueFd> filling;
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 64;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    for (int fd = 0; (fd = ::fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0;)
      filling.emplace_back(fd);
    int wakes = 0;
    const auto end = Clock::now() + 1500ms;
    while (Clock::now() < end) {
      pollfd watched{zero.descriptor(), POLLIN, 0};
      wakes += ::poll(&watched, 1, 100);
      static_cast<void>(zero.look());
      static_cast<void>(one.look());
    }
    filling.clear();
    bool met = false;
    for (int i = 0; i < 3000 && !met; ++i) {
      static_cast<void>(zero.look());
      static_cast<void>(one.look());
      std::this_thread::sleep_for(1ms);
      met = i > 1500;
    }
    one.end(0);
    bool lost = false;
    for (int i = 0; i < 1000 && !lost; ++i) {
      lost = !zero.look().empty();
      std::this_thread::sleep_for(1ms);
    }
    ::_exit(wakes > 20 ? 1 : lost ? 0 : 2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: woken again and again; 2: never accepted";
}

}  // namespace
}  // namespace isthmus::network::watch_test
