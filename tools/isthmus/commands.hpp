#pragma once

#include <string>
#include <vector>

/// What the command `isthmus` can do. Each prints to stdout and returns an exit status.
namespace isthmus::tool {

/// `isthmus info`: this machine, and what it means for each way to carry a message.
/// With `json` as one object.
int print_machine(bool json);
/// `isthmus info --settings`
int print_settings();
/// `isthmus info --coverage [CHAPTER]`: what of MPI 5.0 is implemented; with the names of those that are not,
/// of the chapters whose name contains `wanted`, or of all chapters for "all".
int print_coverage(const std::string& wanted);
/// Becomes a command; mpiexec and mpirun are those beside this program. Returns only where that fails.
int become_command(const std::vector<std::string>& command);

/// `isthmus bench [options of mpiexec] NAME [options]`, `isthmus bench compare ...`: becomes mpiexec, or the
/// script that compares. Returns where that fails, or after help.
int bench(const std::vector<std::string>& words);

/// `isthmus stuck [PID]`: what the ranks of a running job wait for. `word`: the PID of its mpiexec; empty:
/// the user's only one, else they are listed. 0, or 1 where nothing can be said and 2 where it is not clear
/// of which job.
int stuck(const std::string& word);

struct TuneOptions {
  bool quick = false;
  bool gpu = false;      ///< GPU memory too
  std::string output;    ///< file of the table; empty: where jobs look for it
  std::string plot;      ///< prefix of the names of the drawings; empty: none
  std::string from;      ///< a table to draw instead of measuring; empty: measure
  std::string hosts;     ///< "a,b": the network is measured between these; empty: within this machine
  std::string launcher;  ///< as mpiexec's
  std::vector<std::string> command;  ///< a program whose messages teach, instead of measuring; empty: measure
};
/// `isthmus tune`
int tune(const TuneOptions& options);

}  // namespace isthmus::tool
