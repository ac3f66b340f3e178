#include "base/system/process_stat.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <optional>

namespace isthmus::process_stat_test {
namespace {

TEST(ProcessStat, OfThisProcess) {
  const auto self = ProcessStat::of_self();
  ASSERT_TRUE(self);
  EXPECT_EQ(self->parent, ::getppid());
  EXPECT_GT(self->start_time, 0U);
  EXPECT_LE(self->heap_begin, reinterpret_cast<std::uintptr_t>(::sbrk(0)));
}

TEST(ProcessStat, ANameMayHoldAnything) {
  int stop[2];
  ASSERT_EQ(::pipe(stop), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_NAME, ") Z 1 (x)");
    ::close(stop[1]);
    char byte = 0;
    ::_exit(::read(stop[0], &byte, 1) == 0 ? 0 : 1);
  }
  ::close(stop[0]);
  // Until it has its name and sleeps.
  std::optional<ProcessStat> found;
  for (int i = 0; i < 5000; ++i) {
    found = ProcessStat::of(child);
    if (found && found->state == 'S') break;
    ::usleep(1000);
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(found->state, 'S');
  EXPECT_EQ(found->parent, ::getpid());
  EXPECT_GE(found->start_time, ProcessStat::of_self()->start_time);
  ::close(stop[1]);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(ProcessStat::of(child));
}

}  // namespace
}  // namespace isthmus::process_stat_test
