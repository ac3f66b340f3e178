#include "ranks/guard.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>

namespace isthmus::mpiexec {
namespace {

[[noreturn]] void clean(const char* command) {
  ::setpgid(0, 0);  // here too: whoever runs first, and nobody may once this is another program
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::close(0);
  for (int fd = 0; fd <= 2; ++fd)
    ::open("/dev/null", O_RDWR);
  ::execl("/bin/sh", "sh", "-c", command, nullptr);
  ::_exit(127);
}

/// Keeps no file, folder or terminal busy while it waits.
[[noreturn]] void watch(int lifeline, const char* cleaning) {
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
  const pid_t cleaner = *cleaning ? ::fork() : -1;
  if (cleaner == 0) clean(cleaning);
  if (cleaner > 0) ::setpgid(cleaner, cleaner);  // out of the group that is killed now
  ::kill(0, SIGKILL);
  ::_exit(0);
}

}  // namespace

std::expected<Guard, int> Guard::start(const std::string& cleaning) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(errno);
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return std::unexpected(errno);
  if (pid == 0) {
    writer.reset();
    ::setpgid(0, 0);
    watch(reader.get(), cleaning.c_str());
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
