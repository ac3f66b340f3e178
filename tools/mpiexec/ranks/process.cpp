#include "ranks/process.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>

namespace isthmus::mpiexec {
namespace {

/// Shared between the two sides of the clone: the child runs in our memory until it execs.
struct Handover {
  const ProcessPlan* plan;
  pid_t parent;
  std::optional<ProcessError> failure;
  int bind_error = 0;
};

using Step = ProcessError::Step;

std::optional<ProcessError> failed(Step step) {
  return ProcessError{step, errno};
}

/// Only calls that are safe between vfork and exec.
std::optional<ProcessError> become_rank(Handover& handover) {
  const ProcessPlan& plan = *handover.plan;
  if (::setpgid(0, plan.group) != 0) return failed(Step::group);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != handover.parent) return failed(Step::clone);  // mpiexec was killed before the line above
  if (plan.directory && ::chdir(plan.directory) != 0) return failed(Step::directory);
  if (plan.cpus) handover.bind_error = plan.cpus->bind();
  for (int target = 0; target < 3; ++target)
    if (plan.standard[target] >= 0 && ::dup2(plan.standard[target], target) < 0)
      return failed(Step::standard);
  for (const ProcessPlan::HandedOn& entry : plan.handed_on)
    if (entry.fd == entry.as ? ::fcntl(entry.fd, F_SETFD, 0) != 0 : ::dup2(entry.fd, entry.as) < 0)
      return failed(Step::handing_on);
  ::setrlimit(RLIMIT_NOFILE, &plan.inherited->open_files);
  ::sigaction(SIGPIPE, &plan.inherited->broken_pipe, nullptr);
  ::sigaction(SIGCHLD, &plan.inherited->child_ended, nullptr);
  ::sigprocmask(SIG_SETMASK, &plan.inherited->signal_mask, nullptr);
  if (plan.same_addresses && ::personality(ADDR_NO_RANDOMIZE) < 0) return failed(Step::addresses);
  ::execve(plan.path, const_cast<char* const*>(plan.arguments), const_cast<char* const*>(plan.environment));
  return failed(Step::exec);
}

int run_child(void* argument) {
  auto& handover = *static_cast<Handover*>(argument);
  handover.failure = become_rank(handover);
  return 127;  // to clone's _exit
}

}  // namespace

std::expected<Process, ProcessError> start_process(const ProcessPlan& plan) {
  // As vfork: nothing is copied, and an error of the child is a value here instead of bytes in a pipe.
  alignas(64) static std::array<std::byte, 65536> stack;
  Handover handover{.plan = &plan, .parent = ::getpid(), .failure = std::nullopt};
  const pid_t pid =
      ::clone(run_child, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, &handover);
  if (pid < 0) return std::unexpected(ProcessError{Step::clone, errno});
  if (handover.failure) {
    ::waitpid(pid, nullptr, 0);
    return std::unexpected(*handover.failure);
  }
  return Process{pid, handover.bind_error};
}

}  // namespace isthmus::mpiexec
