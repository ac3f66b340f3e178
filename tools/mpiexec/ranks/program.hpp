#pragma once

#include <expected>
#include <string>
#include <vector>

#include "command/environment.hpp"
#include "command/options.hpp"

namespace isthmus::mpiexec {

/// Why the job could not be started, and the exit status that says so: 127 for a program that does not exist,
/// 126 for one that cannot be run, as shells have it, 1 for the rest.
struct StartError {
  int status;
  std::string text;
};

/// A program that has been found, ready for exec.
struct Program {
  std::string path;                    ///< for execve, relative to `directory`
  std::vector<std::string> arguments;  ///< from argv[0]
  std::string directory;               ///< where to start it; empty: where mpiexec is
  std::size_t own_words = 0;           ///< leading arguments in which {rank} stands for the rank
};

/// Looks the part's program up as a shell would: along PATH of `environment` unless its name has a '/'.
/// Relative names are meant from the part's folder.
std::expected<Program, StartError> find_program(const Part& part, const Environment& environment);

/// What execve's `error` means for `program`.
StartError explain_exec_error(const Program& program, int error);

/// Whether a file that execve does not know (ENOEXEC) looks like a script without `#!`, which shells run
/// themselves.
bool is_plain_script(const Program& program);
/// `program` run by /bin/sh.
Program through_shell(Program program);

}  // namespace isthmus::mpiexec
