#include "launch/region/life_line.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace isthmus::launch::life_line_test {
namespace {

/// A region's file, and another process that holds the line of slot 1 in it.
class LifeLineTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(file_);
    ASSERT_EQ(::ftruncate(file_.get(), 4096), 0);
  }
  void TearDown() override {
    if (other_ > 0) end_other();
  }
  /// `then` runs there once the line is taken.
  template <class Then>
  void start_other(Then then) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    other_ = ::fork();
    ASSERT_GE(other_, 0);
    if (other_ == 0) {
      const auto line = LifeLine::take(file_.get(), 1);
      then();
      if (!line || ::write(ready[1], "", 1) != 1) ::_exit(1);
      for (;;)
        ::pause();
    }
    char word = 0;
    ::close(ready[1]);
    ASSERT_EQ(::read(ready[0], &word, 1), 1);
    ::close(ready[0]);
  }
  void end_other() {
    ::kill(other_, SIGKILL);
    ::waitpid(std::exchange(other_, -1), nullptr, 0);
  }

  UniqueFd file_{::memfd_create("region", MFD_CLOEXEC)};
  pid_t other_ = -1;
};

TEST_F(LifeLineTest, IsHeldUntilItsProcessIsKilled) {
  const auto own = LifeLine::take(file_.get(), 0);
  ASSERT_TRUE(own) << own.error().text();
  EXPECT_TRUE((*own)->is_free(1));
  start_other([] {});
  EXPECT_FALSE((*own)->is_free(1));
  EXPECT_TRUE((*own)->is_free(2));
  end_other();
  EXPECT_TRUE((*own)->is_free(1));
}

TEST_F(LifeLineTest, IsHeldByAProcessThatIsStopped) {
  const auto own = LifeLine::take(file_.get(), 0);
  start_other([] {});
  ::kill(other_, SIGSTOP);
  ::waitpid(other_, nullptr, WUNTRACED);
  EXPECT_FALSE((*own)->is_free(1));
}

TEST_F(LifeLineTest, IsHeldByAProcessThatClosesAllItsDescriptors) {
  const auto own = LifeLine::take(file_.get(), 0);
  start_other([this] { ::close(file_.get()); });
  EXPECT_FALSE((*own)->is_free(1));
}

TEST_F(LifeLineTest, IsNotInheritedByAChildThatOutlivesItsProcess) {
  const auto own = LifeLine::take(file_.get(), 0);
  int alive[2];
  ASSERT_EQ(::pipe(alive), 0);
  start_other([&] {
    if (::fork() != 0) return;
    char word = 0;
    ::close(alive[1]);
    static_cast<void>(::read(alive[0], &word, 1));  // until the test has ended
    ::_exit(0);
  });
  end_other();
  EXPECT_TRUE((*own)->is_free(1));
  ::close(alive[0]);
  ::close(alive[1]);
}

TEST_F(LifeLineTest, SaysNothingOnceTheProgramHasClosedItsDescriptor) {
  const auto own = LifeLine::take(file_.get(), 0);
  ASSERT_TRUE(own);
  const int next = ::dup(file_.get());  // the descriptor that the line has made is the one below
  ::close(next);
  ::close_range(static_cast<unsigned>(file_.get()) + 1, static_cast<unsigned>(next), 0);
  EXPECT_FALSE((*own)->is_free(1));
}

TEST_F(LifeLineTest, CannotBeTakenTwice) {
  const auto own = LifeLine::take(file_.get(), 0);
  const auto again = LifeLine::take(file_.get(), 0);
  ASSERT_TRUE(own);
  EXPECT_FALSE(again);
}

TEST_F(LifeLineTest, NeedsAFile) {
  EXPECT_FALSE(LifeLine::take(-1, 0));
}

}  // namespace
}  // namespace isthmus::launch::life_line_test
