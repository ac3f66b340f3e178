#include "child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/unique_fd.hpp"
#include "commands.hpp"

namespace isthmus::tool {
namespace {

/// For the handler; 0 while there is none.
std::atomic<pid_t> child_to_tell = 0;
static_assert(std::atomic<pid_t>::is_always_lock_free);

void hand_on(int signal) noexcept {
  const int error = errno;
  if (const pid_t child = child_to_tell.load(); child > 0) ::kill(child, signal);
  errno = error;
}

/// What this process does with signals, as long as a command runs.
class Signals {
 public:
  Signals() {
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    struct sigaction tell{};
    tell.sa_handler = hand_on;
    for (std::size_t i = 0; i < all.size(); ++i)
      ::sigaction(all[i], all[i] == SIGINT || all[i] == SIGQUIT ? &ignore : &tell, &before_[i]);
  }
  ~Signals() { restore(); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  void restore() const {
    for (std::size_t i = 0; i < all.size(); ++i)
      ::sigaction(all[i], &before_[i], nullptr);
  }

 private:
  static constexpr std::array all{SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  std::array<struct sigaction, all.size()> before_{};
};

/// Until all who write have closed it, or the command, of which `exited` is the pidfd (-1: none), has ended
/// and nothing is left.
void take_all(int errors, int exited, const TakeErrors& take) {
  std::array<char, 65536> buffer{};
  std::array<pollfd, 2> ends{{{.fd = errors, .events = POLLIN}, {.fd = exited, .events = POLLIN}}};
  for (;;) {
    if (::poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) return;
    if (ends[0].revents != 0) {
      const ssize_t got = ::read(errors, buffer.data(), buffer.size());
      if (got > 0) take({buffer.data(), static_cast<std::size_t>(got)});
      if (got == 0 || (got < 0 && errno != EINTR)) return;
    } else if (ends[1].revents != 0) {
      return;
    }
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int run_command(const std::vector<std::string>& command, const TakeErrors& take_errors) {
  const auto complain = [](const char* what) {
    fmt::print(stderr, "isthmus: {}: {}\n", what, std::strerror(errno));
    return 1;
  };
  int ends[2] = {-1, -1};
  if (take_errors && ::pipe2(ends, O_CLOEXEC) != 0) return complain("cannot make a pipe");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const Signals signals;
  const pid_t child = ::fork();
  if (child < 0) return complain("cannot start a process");
  if (child == 0) {
    signals.restore();
    if (writer) ::dup2(writer.get(), STDERR_FILENO);
    ::_exit(become_command(command));
  }
  child_to_tell = child;
  writer.reset();
  if (take_errors) {
    const UniqueFd exited(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    take_all(reader.get(), exited.get(), take_errors);
  }
  const int status = wait_for(child);
  child_to_tell = 0;
  return status;
}

}  // namespace isthmus::tool
