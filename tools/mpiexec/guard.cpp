#include "guard.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>

namespace isthmus::mpiexec {
namespace {

/// Keeps no file, folder or terminal busy while it waits.
[[noreturn]] void watch(int lifeline) {
  ::prctl(PR_SET_NAME, "isthmus-guard");
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::dup2(lifeline, 0);
  ::close_range(1, UINT_MAX, 0);
  [[maybe_unused]] const int unmoved = ::chdir("/");
  char byte = 0;
  while (::read(0, &byte, 1) < 0 && errno == EINTR) {
  }
  ::kill(0, SIGKILL);
  ::_exit(0);
}

}  // namespace

std::expected<Guard, int> Guard::start() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(errno);
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return std::unexpected(errno);
  if (pid == 0) {
    writer.reset();
    ::setpgid(0, 0);
    watch(reader.get());
  }
  ::setpgid(pid, pid);  // here too: whoever runs first
  return Guard(pid, std::move(writer));
}

Guard::Guard(Guard&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), group_(other.group_), lifeline_(std::move(other.lifeline_)) {}

Guard::~Guard() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace isthmus::mpiexec
