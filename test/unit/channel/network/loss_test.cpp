#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/unique_fd.hpp"
#include "ports.hpp"

namespace isthmus::network::loss_test {
namespace {

using testing::HasSubstr;

TEST_F(NetworkPorts, TellThatAPeerHasClosed) {
  ASSERT_TRUE(ports[0]->send(1, header_of(0), {}, 0));
  ASSERT_TRUE(wait([&] { return !events[1].messages.empty(); }));
  ports[1].reset();
  ASSERT_TRUE(wait([&] { return !events[0].losses.empty(); }));
  EXPECT_EQ(events[0].losses[0].first, 1U);
  EXPECT_THAT(events[0].losses[0].second, HasSubstr("rank 1 cannot be reached any more"));
  const auto later = ports[0]->send(1, header_of(1), {}, 0);
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().error_class(), ErrorClass::proc_aborted);
  EXPECT_FALSE(ports[0]->connect(1, ports[0]->address()));
  for (int i = 0; i < 1000; ++i)
    poll();
  EXPECT_EQ(events[0].losses.size(), 1U);
}

TEST_F(NetworkPorts, DeliverWhatAPeerSentBeforeItClosed) {
  for (std::uint32_t i = 0; i < 100; ++i)
    ASSERT_TRUE(ports[1]->send(0, header_of(i), {}, 0));
  ASSERT_TRUE(wait([&] { return ports[1]->idle(); }));
  ports[1].reset();
  ASSERT_TRUE(wait([&] { return !events[0].losses.empty(); }));
  EXPECT_EQ(events[0].messages.size(), 100U);
}

TEST_F(NetworkPorts, TellThatAPeerHasClosedToWhoNeverConnectedToIt) {
  for (PeerId rank = 0; rank < ranks; ++rank) {
    ports[rank].reset();
    auto port = open({}, {rank, ranks}, events[rank]);
    ASSERT_TRUE(port);
    ports[rank] = std::move(*port);
  }
  events[0].losses.clear();
  ASSERT_TRUE(ports[1]->connect(0, ports[0]->address()));
  ASSERT_TRUE(ports[1]->send(0, header_of(0), {}, 0));
  ASSERT_TRUE(wait([&] { return !events[0].messages.empty(); }));
  for (int i = 0; i < 5000; ++i)
    poll();  // the watch says hello
  ports[1].reset();
  ASSERT_TRUE(wait([&] { return !events[0].losses.empty(); }));
  EXPECT_EQ(events[0].losses[0].first, 1U);
}

/// A job of two whose second rank is a process of its own, to be killed.
class NetworkKill : public testing::Test {
 protected:
  /// Runs `body` as rank 1, connected to rank 0, until it is killed.
  template <class Body>
  void start(Body body) {
    // Before this process has a port: it would not live on in a forked child.
    int up[2];
    int down[2];
    ASSERT_EQ(pipe(up), 0);
    ASSERT_EQ(pipe(down), 0);
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      alarm(50);
      Recorder recorder;
      auto opened = open({}, {1, 2}, recorder);
      if (!opened) _exit(77);
      put(up[1], (*opened)->address());
      const auto address = get(down[0]);
      if (!(*opened)->connect(0, address)) _exit(1);
      body(**opened, recorder);
      _exit(0);
    }
    auto opened = open({}, {0, 2}, events_);
    if (!opened) GTEST_SKIP() << "UCX IS NOT TESTED: " << opened.error().text();
    port_ = std::move(*opened);
    put(down[1], port_->address());
    const auto address = get(up[0]);
    const auto connected = port_->connect(1, address);
    ASSERT_TRUE(connected) << connected.error().text();
    for (const int descriptor : {up[0], up[1], down[0], down[1]})
      close(descriptor);
  }

  void TearDown() override {
    if (child_ > 0) kill();
  }
  void kill() {
    ::kill(child_, SIGKILL);
    waitpid(std::exchange(child_, -1), nullptr, 0);
  }

  template <class Condition>
  bool wait(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition()) {
      port_->poll();
      if (std::chrono::steady_clock::now() > until) return false;
    }
    return true;
  }

  static void put(int descriptor, std::span<const std::byte> bytes) {
    const std::size_t count = bytes.size();
    if (write(descriptor, &count, sizeof count) < 0 || write(descriptor, bytes.data(), count) < 0) _exit(2);
  }
  static std::vector<std::byte> get(int descriptor) {
    std::size_t count = 0;
    if (read(descriptor, &count, sizeof count) != sizeof count || count > 60000) return {};
    std::vector<std::byte> bytes(count);
    if (read(descriptor, bytes.data(), count) != static_cast<ssize_t>(count)) return {};
    return bytes;
  }

  Recorder events_;
  std::unique_ptr<Port> port_;
  pid_t child_ = -1;
};

TEST_F(NetworkKill, EndsASendThatNobodyWillFetch) {
  start([](Port& port, Recorder&) {
    for (;;)
      port.poll();
  });
  if (IsSkipped()) return;
  const std::vector<std::byte> content(1 << 20);
  ASSERT_TRUE(port_->send(1, {}, content, 7));
  for (int i = 0; i < 20000; ++i)
    port_->poll();
  EXPECT_TRUE(events_.ended.empty());
  kill();
  ASSERT_TRUE(wait([&] { return !events_.losses.empty(); }));
  ASSERT_TRUE(events_.ended.contains(7));
  EXPECT_NE(events_.ended[7], "");
}

TEST_F(NetworkKill, EndsAFetchWhoseSenderIsGone) {
  start([](Port& port, Recorder& recorder) {
    const std::vector<std::byte> content(64 << 20);
    if (!port.send(0, {}, content, 0)) _exit(1);
    while (recorder.messages.empty())
      port.poll();
    for (;;)
      pause();
  });
  if (IsSkipped()) return;
  ASSERT_TRUE(wait([&] { return !events_.messages.empty(); }));
  // From now on the sender does nothing.
  ASSERT_TRUE(port_->send(1, {}, {}, 0));
  for (int i = 0; i < 50000; ++i)
    port_->poll();
  std::vector<std::byte> to(events_.messages[0].offered);
  port_->fetch(events_.messages[0].offer, to, 9);
  for (int i = 0; i < 20000; ++i)
    port_->poll();
  EXPECT_TRUE(events_.ended.empty());
  kill();
  ASSERT_TRUE(wait([&] { return !events_.losses.empty(); }));
  ASSERT_TRUE(events_.ended.contains(9));
  EXPECT_NE(events_.ended[9], "");
  port_.reset();
}

TEST_F(NetworkKill, LeavesNothingToHangOnInTheDestructor) {
  start([](Port& port, Recorder&) {
    for (int i = 0; i < 1000; ++i)
      port.poll();
    for (;;)
      pause();
  });
  if (IsSkipped()) return;
  const std::vector<std::byte> content(8 << 20);
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(port_->send(1, {}, std::span(content).first(i % 2 ? 60000 : content.size()), 7));
  for (int i = 0; i < 1000; ++i)
    port_->poll();
  kill();
  const auto begin = std::chrono::steady_clock::now();
  port_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace isthmus::network::loss_test
