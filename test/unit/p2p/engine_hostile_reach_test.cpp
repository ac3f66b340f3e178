// A peer that names a process that is not its own: nothing is read from it or written to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "channel/cma/cma.hpp"
#include "engine_hostile.hpp"
#include "sanitizers.hpp"

namespace isthmus::engine_hostile_reach_test {
namespace {

using testing::HasSubstr;
using testing_hostile::Child;
using testing_hostile::EngineHostile;

/// A second thread of this process, and the id that the kernel has given it.
class OtherThread {
 public:
  OtherThread()
      : thread_([this] {
          id_.store(static_cast<pid_t>(::syscall(SYS_gettid)));
          id_.notify_one();
          ends_.wait(false);
        }) {
    id_.wait(0);
  }
  ~OtherThread() {
    ends_.store(true);
    ends_.notify_one();
  }
  OtherThread(const OtherThread&) = delete;
  OtherThread& operator=(const OtherThread&) = delete;
  [[nodiscard]] pid_t id() const { return id_.load(); }

 private:
  std::atomic<pid_t> id_{0};
  std::atomic<bool> ends_{false};
  std::jthread thread_;
};

TEST_F(EngineHostile, AProcessThatClaimsThisOnesPidIsNotWrittenTo) {
  static std::uint64_t nonce[2] = {0x1234'5678'9abc'def0, 0};
  place().pid = ::getpid();
  place().probe_nonce = nonce[0];
  place().probe_address = reinterpret_cast<std::uint64_t>(nonce);
  EXPECT_FALSE(engine->pull_reach(1));
  const Reach& push = engine->push_reach(1);
  ASSERT_FALSE(push);
  EXPECT_THAT(push.error().text, HasSubstr("pid of this process"));
  EXPECT_EQ(nonce[1], 0U);
  std::uint64_t victim = 5;
  const std::uint64_t value = 6;
  EXPECT_FALSE(engine->push(1, reinterpret_cast<std::uint64_t>(&victim), &value, sizeof value));
  EXPECT_EQ(victim, 5U);
}

TEST_F(EngineHostile, PidsThatNameNoProcessAreRefused) {
  for (const std::int32_t pid : {0, -1, -42, INT32_MIN, INT32_MAX}) {
    make({64, 64 * 1024});
    place().pid = pid;
    place().probe_nonce = 1;
    place().probe_address = 4096;
    EXPECT_FALSE(engine->pull_reach(1)) << pid;
    EXPECT_FALSE(engine->push_reach(1)) << pid;
  }
}

TEST_F(EngineHostile, ThePidThatWasProbedIsTheOneThatIsUsed) {
  static std::uint64_t probe[2] = {0xfeed, 0};
  static std::uint64_t value = 11;
  const Child peer;
  value = 22;
  const Child other;
  place().pid = peer.pid();
  place().probe_nonce = probe[0];
  place().probe_address = reinterpret_cast<std::uint64_t>(probe);
  if (!engine->pull_reach(1)) GTEST_SKIP() << engine->pull_reach(1).error().text;
  place().pid = other.pid();
  std::uint64_t found = 0;
  ASSERT_TRUE(engine->pull(1, reinterpret_cast<std::uint64_t>(&value), &found, sizeof found));
  EXPECT_EQ(found, 11U);
}

TEST_F(EngineHostile, AThreadOfThisProcessIsNoPeer) {
  static std::uint64_t nonce[2] = {0x1234'5678'9abc'def0, 0};
  const OtherThread thread;
  place().pid = thread.id();
  place().probe_nonce = nonce[0];
  place().probe_address = reinterpret_cast<std::uint64_t>(nonce);
  const Reach& pull = engine->pull_reach(1);
  ASSERT_FALSE(pull);
  EXPECT_THAT(pull.error().text, HasSubstr("the id of a thread"));
  EXPECT_FALSE(engine->push_reach(1));
  EXPECT_EQ(nonce[1], 0U);
}

TEST_F(EngineHostile, AThreadOfAnotherProcessIsNoPeer) {
  static std::uint64_t nonce[2] = {0x1234'5678'9abc'def0, 0};
  static std::atomic<pid_t>* const id = [] {
    void* shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return new (shared) std::atomic<pid_t>(0);
  }();
  const Child peer([] {
    const OtherThread thread;
    id->store(thread.id());
    for (;;)
      ::pause();
  });
  while (id->load() == 0)
    ::sched_yield();
  place().pid = id->load();
  place().probe_nonce = nonce[0];
  place().probe_address = reinterpret_cast<std::uint64_t>(nonce);
  EXPECT_FALSE(engine->pull_reach(1));
  EXPECT_FALSE(engine->push_reach(1));
}

TEST_F(EngineHostile, AProcessThatSharesThisOnesMemoryIsNoPeer) {
  if (under_thread_sanitizer) GTEST_SKIP() << "it takes clone() for fork()";
  static std::uint64_t nonce[2] = {0x1234'5678'9abc'def0, 0};
  std::vector<std::byte> stack(64 * 1024);
  const pid_t pid = ::clone(
      [](void*) {
        for (;;)
          ::pause();
        return 0;
      },
      stack.data() + stack.size() / 16 * 16, CLONE_VM | SIGCHLD, nullptr);
  ASSERT_GT(pid, 0);
  place().pid = pid;
  place().probe_nonce = nonce[0];
  place().probe_address = reinterpret_cast<std::uint64_t>(nonce);
  const Reach& push = engine->push_reach(1);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  ASSERT_FALSE(push);
  EXPECT_THAT(push.error().text, HasSubstr("names the memory of this process"));
  EXPECT_EQ(nonce[1], 0U);
}

/// As when the id of a peer that has gone is given to a new thread of this process.
TEST(Cma, AThreadOfThisProcessIsNoProcess) {
  const OtherThread thread;
  const auto found = cma::check_process(thread.id());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().error_class(), ErrorClass::proc_aborted);
  EXPECT_TRUE(cma::check_process(::getpid()));
}

TEST(Cma, APeerThatIsAProcessOfItsOwnIsApart) {
  const Child peer;
  const auto apart = cma::check_apart(peer.pid());
  EXPECT_TRUE(apart) << apart.error().text();
  EXPECT_FALSE(cma::check_apart(::getpid()));
  EXPECT_FALSE(cma::check_apart(0));
  EXPECT_FALSE(cma::check_apart(-1));
}

}  // namespace
}  // namespace isthmus::engine_hostile_reach_test
