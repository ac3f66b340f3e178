#include "ranks/signals.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>

namespace isthmus::mpiexec {

Signals::Signals() {
  ::getrlimit(RLIMIT_NOFILE, &inherited_.open_files);
  struct sigaction action{};
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, &inherited_.broken_pipe);
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &action, &inherited_.child_ended);  // ignored, it would reap the ranks

  sigset_t taken;
  ::sigemptyset(&taken);
  for (const int signal :
       {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH}) {
    struct sigaction current{};
    ::sigaction(signal, nullptr, &current);
    if (current.sa_handler != SIG_IGN) ::sigaddset(&taken, signal);
  }
  ::sigprocmask(SIG_BLOCK, &taken, &inherited_.signal_mask);
  fd_ = UniqueFd(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
}

std::optional<int> Signals::next() const {
  signalfd_siginfo information{};
  if (::read(fd_.get(), &information, sizeof information) != sizeof information) return std::nullopt;
  return static_cast<int>(information.ssi_signo);
}

void Signals::die_of(int signal) const {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, signal);
  ::raise(signal);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  std::_Exit(128 + signal);
}

}  // namespace isthmus::mpiexec
