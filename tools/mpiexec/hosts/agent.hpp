#pragma once

#include <string>
#include <vector>

namespace isthmus::mpiexec {

/// The word that makes mpiexec an agent: `mpiexec --agent HOST PORT ADDRESS...`, with the job's key as the
/// first line of its standard input. HOST is this host's number in the job. It connects to the head at one of
/// the addresses, starts the ranks that the head orders, with the rest of its standard input for rank 0, and
/// passes on what the head says; without the head it ends them.
inline constexpr const char* agent_word = "--agent";

/// `words` are those behind `--agent`. mpiexec's exit status.
int run_agent(const std::vector<std::string>& words);

}  // namespace isthmus::mpiexec
