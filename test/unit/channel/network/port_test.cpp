#include <gmock/gmock.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "ports.hpp"

namespace isthmus::network::port_test {
namespace {

using testing::HasSubstr;

std::uint32_t number_of(const Recorder::Message& message) {
  std::uint32_t number = ~0U;
  if (message.header.size() == sizeof number) std::memcpy(&number, message.header.data(), sizeof number);
  return number;
}

TEST_F(NetworkPorts, CarryMessagesOfAllSizesInOrder) {
  std::vector<std::vector<std::byte>> contents;
  for (const std::size_t bytes : {0, 1, 8, 511, 512, 513, 4096, 8000, 8192, 65535, 131072, 262143, 262144,
                                  262145, 1 << 20, 3, 32 << 20, 5})
    contents.push_back(pattern(bytes, static_cast<unsigned>(contents.size())));
  std::vector<std::vector<std::byte>> received(contents.size());
  events[1].on_offer = [&](Recorder::Message& message) {
    auto& to = received.at(number_of(message));
    to.resize(message.offered);
    ports[1]->fetch(message.offer, to, 1000 + number_of(message));
  };
  std::size_t pending = 0;
  for (std::uint32_t i = 0; i < contents.size(); ++i) {
    const auto progress = ports[0]->send(1, header_of(i), contents[i], i);
    ASSERT_TRUE(progress) << progress.error().text();
    pending += *progress == Port::Progress::pending ? 1 : 0;
  }
  ASSERT_TRUE(wait([&] {
    const auto fetches =
        std::ranges::count_if(events[1].messages, [](const auto& m) { return m.offer != 0; });
    return events[1].messages.size() == contents.size() && events[0].ended.size() == pending &&
           static_cast<std::ptrdiff_t>(events[1].ended.size()) == fetches;
  }));
  for (std::uint32_t i = 0; i < contents.size(); ++i) {
    const auto& message = events[1].messages[i];
    EXPECT_EQ(number_of(message), i);
    EXPECT_EQ(message.peer, 0U);
    EXPECT_EQ(message.offer != 0, contents[i].size() > ports[0]->eager_limit(1));
    EXPECT_TRUE((message.offer != 0 ? received[i] : message.bytes) == contents[i]) << contents[i].size();
  }
  for (const auto& side : events)
    for (const auto& [token, error] : side.ended)
      EXPECT_EQ(error, "") << token;
}

TEST_F(NetworkPorts, FetchLater) {
  const auto content = pattern(1 << 20, 7);
  ASSERT_TRUE(ports[0]->send(1, header_of(0), content, 5));
  ASSERT_TRUE(wait([&] { return !events[1].messages.empty(); }));
  for (int i = 0; i < 1000; ++i)
    poll();
  EXPECT_TRUE(events[0].ended.empty()) << "complete before it was fetched";
  std::vector<std::byte> received(content.size());
  ports[1]->fetch(events[1].messages[0].offer, received, 6);
  ASSERT_TRUE(wait([&] { return events[0].ended.contains(5) && events[1].ended.contains(6); }));
  EXPECT_TRUE(received == content);
}

TEST_F(NetworkPorts, WithoutAWishTheyTakeNoMemoryOfGpus) {
  EXPECT_THAT(std::string(ports[0]->why_not_gpu()), HasSubstr("at MPI_Init"));
  Settings staged;
  staged.gpu_path = GpuPathSetting::staged;
  open_all(staged);
  EXPECT_THAT(std::string(ports[0]->why_not_gpu()), HasSubstr("ISTHMUS_GPU_PATH"));
  const auto content = pattern(1 << 20, 7);
  ASSERT_TRUE(ports[0]->send(1, header_of(0), content, 5));
  ASSERT_TRUE(wait([&] { return !events[1].messages.empty(); }));
  std::vector<std::byte> received(content.size());
  EXPECT_FALSE(ports[1]->try_fetch_to_gpu(events[1].messages[0].offer, received, 6));
  ports[1]->fetch(events[1].messages[0].offer, received, 6);
  ASSERT_TRUE(wait([&] { return events[1].ended.contains(6); }));
  EXPECT_TRUE(received == content) << "the offer was not consumed";
}

TEST_F(NetworkPorts, FetchTheFirstBytesOfAnOffer) {
  const auto content = pattern(3 << 20, 3);
  Token token = 0;
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{70000}, std::size_t{2 << 20}, content.size() - 1}) {
    events[1].messages.clear();
    ASSERT_TRUE(ports[0]->send(1, header_of(0), content, ++token));
    ASSERT_TRUE(wait([&] { return !events[1].messages.empty(); }));
    std::vector<std::byte> received(bytes + 1, std::byte{0xee});
    ports[1]->fetch(events[1].messages[0].offer, std::span(received).first(bytes), token);
    ASSERT_TRUE(wait([&] { return events[0].ended.contains(token) && events[1].ended.contains(token); }));
    EXPECT_EQ(events[0].ended[token], "");
    EXPECT_EQ(events[1].ended[token], "");
    EXPECT_TRUE(std::equal(received.begin(), received.end() - 1, content.begin())) << bytes;
    EXPECT_EQ(received.back(), std::byte{0xee});
  }
}

TEST_F(NetworkPorts, CompleteSendsThatAreDeclinedAtOnceOrLater) {
  const auto content = pattern(1 << 20, 3);
  bool at_once = true;
  events[1].on_offer = [&](Recorder::Message& message) {
    if (at_once) ports[1]->decline(message.offer);
  };
  ASSERT_TRUE(ports[0]->send(1, header_of(0), content, 1));
  ASSERT_TRUE(wait([&] { return events[0].ended.contains(1); }));
  at_once = false;
  ASSERT_TRUE(ports[0]->send(1, header_of(1), content, 2));
  ASSERT_TRUE(wait([&] { return events[1].messages.size() == 2; }));
  ports[1]->decline(events[1].messages[1].offer);
  ASSERT_TRUE(wait([&] { return events[0].ended.contains(2); }));
  EXPECT_EQ(events[0].ended[1], "");
  EXPECT_EQ(events[0].ended[2], "");
}

TEST_F(NetworkPorts, KeepTheOrderOfManyMessagesOfMixedSizes) {
  constexpr std::uint32_t count = 20000;
  const auto content = pattern(200000, 1);
  const auto size_of = [](std::uint32_t i) -> std::size_t {
    return i % 97 == 0 ? 20000 + i : i % 1009 == 0 ? 199000 : i % 40;
  };
  std::map<Token, std::vector<std::byte>> received;
  events[1].on_offer = [&](Recorder::Message& message) {
    auto& to = received[number_of(message)];
    to.resize(message.offered);
    ports[1]->fetch(message.offer, to, number_of(message));
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    ASSERT_TRUE(ports[0]->send(1, header_of(i), std::span(content).first(size_of(i)), i));
    if (i % 64 == 0) poll();
  }
  ASSERT_TRUE(wait([&] { return events[1].messages.size() == count && ports[0]->idle(); }));
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto& message = events[1].messages[i];
    ASSERT_EQ(number_of(message), i);
    const auto& bytes = message.offer ? received[i] : message.bytes;
    ASSERT_EQ(bytes.size(), size_of(i));
    ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), content.begin())) << i;
  }
}

TEST_F(NetworkPorts, AreIdleWhenWhatWasSentHasLeft) {
  EXPECT_TRUE(ports[0]->idle());
  const auto content = pattern(1 << 20, 7);
  ASSERT_TRUE(ports[0]->send(1, header_of(0), content, 5));
  EXPECT_FALSE(ports[0]->idle());
  ASSERT_TRUE(wait([&] { return !events[1].messages.empty(); }));
  EXPECT_FALSE(ports[0]->idle());
  ports[1]->decline(events[1].messages[0].offer);
  EXPECT_TRUE(wait([&] { return ports[0]->idle() && ports[1]->idle(); }));
}

TEST_F(NetworkPorts, WakeWhoWaits) {
  ASSERT_TRUE(ports[0]->send(1, header_of(0), {}, 0));
  ASSERT_TRUE(wait([&] { return events[1].messages.size() == 1; }));
  ASSERT_TRUE(wait([&] { return ports[1]->arm(); }));
  pollfd waiting{.fd = ports[1]->wake_descriptor(), .events = POLLIN, .revents = 0};
  while (::poll(&waiting, 1, 300) == 1)  // the end of connecting
    while (!ports[1]->arm())
      poll();
  ASSERT_TRUE(ports[0]->send(1, header_of(1), {}, 0));
  ports[0]->poll();
  EXPECT_EQ(::poll(&waiting, 1, 5000), 1);
  EXPECT_TRUE(wait([&] { return events[1].messages.size() == 2; }));
}

TEST_F(NetworkPorts, SayWhichTransportsServe) {
  ASSERT_TRUE(ports[0]->send(1, header_of(0), {}, 0));
  ASSERT_TRUE(wait([&] { return !events[1].messages.empty(); }));
  EXPECT_THAT(ports[0]->describe(1), HasSubstr(" on "));
  EXPECT_EQ(ports[0]->describe(0), "not connected");
}

TEST_F(NetworkPorts, RefuseWhatIsNoAddress) {
  std::vector<std::byte> address(ports[1]->address().begin(), ports[1]->address().end());
  auto port = open({}, {0, 4}, events[0]);
  ASSERT_TRUE(port);
  for (const auto& garbage : {std::vector<std::byte>{}, pattern(7, 1), pattern(address.size(), 2)})
    EXPECT_FALSE((*port)->connect(2, garbage));
  address[address.size() / 2] ^= std::byte{1};
  const auto connected = (*port)->connect(2, address);
  ASSERT_FALSE(connected);
  EXPECT_THAT(connected.error().text(), HasSubstr("rank 2"));
  EXPECT_FALSE((*port)->connect(4, ports[1]->address())) << "a rank beyond the job";
  EXPECT_FALSE((*port)->send(2, {}, {}, 0)) << "never connected";
}

TEST_F(NetworkPorts, BelieveOneProcessOnlyThatItIsARank) {
  Recorder stranger;
  Settings quiet;
  quiet.warn = false;
  open_all(quiet);
  if (IsSkipped()) return;
  auto port = open(quiet, {1, 9}, stranger);
  ASSERT_TRUE(port);
  ASSERT_TRUE((*port)->connect(0, ports[0]->address()));
  ASSERT_TRUE((*port)->send(0, header_of(0), {}, 0));
  ASSERT_TRUE(wait([&] {
    (*port)->poll();
    return !events[0].messages.empty();
  }));
  // Both call themselves rank 1 and number from 0: the second message 0 is refused.
  ASSERT_TRUE(ports[1]->send(0, header_of(1), {}, 0));
  for (int i = 0; i < 20000; ++i)
    poll();
  EXPECT_EQ(events[0].messages.size(), 1U);
}

TEST_F(NetworkPorts, GiveOffersBackWhenTheyAreClosed) {
  const auto content = pattern(1 << 20, 7);
  ASSERT_TRUE(ports[0]->send(1, header_of(0), content, 5));
  ASSERT_TRUE(wait([&] { return !events[1].messages.empty(); }));
  ports[1].reset();
  ASSERT_TRUE(wait([&] { return events[0].ended.contains(5); }));
}

/// Opens a port for `ranks` where this process may have so many files open, and ends it: with 0 if `check`
/// holds. For the child of a death test of the style "threadsafe", which begins anew: a fork of a process
/// whose network library has threads may find a lock of theirs taken for ever.
template <class Check>
[[noreturn]] void open_with(rlim_t soft, rlim_t hard, PeerId ranks, const Check& check) {
  const rlimit limit{soft, hard};
  ::setrlimit(RLIMIT_NOFILE, &limit);
  Recorder events;
  const auto port = open({}, {0, ranks}, events);
  ::_exit(check(port) ? 0 : 1);
}

class NetworkFiles : public testing::Test {
 protected:
  void SetUp() override {
    Recorder events;
    const auto port = open({}, {0, 1}, events);
    if (!port) GTEST_SKIP() << "UCX IS NOT TESTED: " << port.error().text();
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(NetworkFiles, TheirLimitIsRaisedForJobsThatNeedMore) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t hard = std::min<rlim_t>(limit.rlim_max, 5000);
  const auto is_raised = [hard](const auto& port) {
    rlimit raised{};
    ::getrlimit(RLIMIT_NOFILE, &raised);
    return port && raised.rlim_cur >= std::min<rlim_t>(hard, 1600);
  };
  EXPECT_EXIT(open_with(256, hard, 200, is_raised), testing::ExitedWithCode(0), "");
}

TEST_F(NetworkFiles, ThatTooFewMayBeOpenedIsSaid) {
  const auto is_said = [](const auto& port) {
    return !port && port.error().error_class() == ErrorClass::no_mem &&
           port.error().text().contains("ulimit -n");
  };
  for (const rlim_t most : {6, 12, 20, 28})
    EXPECT_EXIT(open_with(most, most, 2, is_said), testing::ExitedWithCode(0), "") << most;
}

}  // namespace
}  // namespace isthmus::network::port_test
