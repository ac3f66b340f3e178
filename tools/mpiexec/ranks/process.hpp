#pragma once

#include <sys/resource.h>
#include <sys/types.h>
#include <csignal>
#include <expected>
#include <span>

#include "place/cpu_set.hpp"

namespace isthmus::mpiexec {

/// What mpiexec has changed of itself and its ranks must not inherit.
struct Inherited {
  sigset_t signal_mask;
  struct sigaction broken_pipe;
  struct sigaction child_ended;
  rlimit open_files;
};

/// A process to start. All pointers stay the caller's; a descriptor of -1 leaves the standard one alone.
struct ProcessPlan {
  const char* path;
  const char* const* arguments;
  const char* const* environment;
  const char* directory;  ///< nullptr: where mpiexec is
  const CpuSet* cpus;     ///< nullptr: anywhere
  int standard[3];        ///< for stdin, stdout, stderr
  /// Descriptors to hand on, close-on-exec here: `fd` becomes `as` there. No `as` is another's `fd`.
  struct HandedOn {
    int fd, as;
  };
  std::span<const HandedOn> handed_on;
  pid_t group;                  ///< process group to join
  bool same_addresses = false;  ///< what it loads lies where it does in any other process of the program
  const Inherited* inherited;
};

/// Step that failed, with its errno.
struct ProcessError {
  enum class Step { clone, group, directory, handing_on, standard, addresses, exec } step;
  int error;
};

struct Process {
  pid_t pid;
  int bind_error;  ///< errno of confining it to its cpus, which does not keep it from running
};

/// Starts a process that dies with mpiexec. Returns when it runs the new program or has failed to.
std::expected<Process, ProcessError> start_process(const ProcessPlan& plan);

}  // namespace isthmus::mpiexec
