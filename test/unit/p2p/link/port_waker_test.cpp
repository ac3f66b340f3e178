#include "p2p/link/port_waker.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

#include "base/futex.hpp"

namespace isthmus::port_waker_test {
namespace {

/// A port of which something may be heard, and a rank that may sleep.
class PortWakerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto started = PortWaker::start(port.get(), [this] {
      if (sleeping.exchange(0) != 0) futex_wake(sleeping);
    });
    ASSERT_TRUE(started) << started.error().text();
    waker = std::move(*started);
  }
  void make_readable() const {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(port.get(), &one, sizeof one), ssize_t{sizeof one});
  }
  /// Sleeps as a rank does; whether it has been woken.
  bool is_woken(long microseconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
    while (sleeping.load() == 1 && std::chrono::steady_clock::now() < end)
      futex_wait(sleeping, 1, microseconds);
    return sleeping.load() == 0;
  }

  UniqueFd port{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<std::uint32_t> sleeping{1};
  std::unique_ptr<PortWaker> waker;
};

constexpr long soon = 20'000;
constexpr long patience = 10'000'000;

TEST_F(PortWakerTest, WakesWhoSleepsWhenThePortHasNews) {
  waker->arm();
  EXPECT_FALSE(is_woken(soon));
  make_readable();
  EXPECT_TRUE(is_woken(patience));
}

TEST_F(PortWakerTest, WakesForNewsThatWereThereBefore) {
  make_readable();
  EXPECT_FALSE(is_woken(soon)) << "nobody has asked for it";
  waker->arm();
  EXPECT_TRUE(is_woken(patience));
}

TEST_F(PortWakerTest, WakesOnceForEachTimeItIsArmed) {
  make_readable();
  waker->arm();
  EXPECT_TRUE(is_woken(patience));
  sleeping = 1;
  EXPECT_FALSE(is_woken(soon));
  waker->arm();
  EXPECT_TRUE(is_woken(patience));
}

TEST_F(PortWakerTest, EndsWhileItIsArmed) {
  waker->arm();
  waker.reset();
  make_readable();
  EXPECT_FALSE(is_woken(soon));
}

}  // namespace
}  // namespace isthmus::port_waker_test
