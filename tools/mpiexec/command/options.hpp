#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "place/binding.hpp"

namespace isthmus::mpiexec {

/// How the ranks' stdout and stderr reach those of mpiexec.
enum class OutputMode : std::uint8_t {
  automatic,  ///< direct for a single rank and to a terminal or another device, lines otherwise
  direct,     ///< inherited: nothing lies between
  lines,      ///< through mpiexec, so that lines of different ranks never mix
  tagged,     ///< as lines, each with its rank in front
};

/// `NAME=VALUE`, or `NAME` alone: the value that mpiexec itself has.
struct Export {
  std::string name;
  std::optional<std::string> value;
};

/// One program of the command line: what stands between two `:`.
struct Part {
  std::optional<std::uint32_t> ranks;
  std::optional<std::string> directory;
  std::vector<Export> exports;
  std::vector<std::string> command;        ///< the program and its arguments
  std::int32_t appnum = 0;                 ///< which of the job's parts it is
  std::optional<std::uint32_t> all_ranks;  ///< of the part on all hosts, where `ranks` are those here
};

struct HostSlots {
  std::string name;
  std::uint32_t slots;  ///< ranks that it gets before any host gets more than its own
};

/// Which GPU each rank gets (--gpu-bind).
struct GpuBind {
  enum class How : std::uint8_t {
    none,     ///< whichever the program takes
    closest,  ///< one near its processors, dealt out evenly
    listed,   ///< the i-th of `list` for the i-th rank of a host
  };
  How how = How::none;
  std::vector<std::string> list;  ///< numbers in the order of PCI addresses, or UUIDs
  bool others_behind = false;     ///< the other GPUs stay visible, behind its own
};

struct Options {
  std::vector<Part> parts;
  std::vector<Export> exports;  ///< for all parts
  std::optional<BindTo> bind;  ///< nothing: a core for each rank where there are enough that no other job has
  MapBy map = MapBy::core;
  std::vector<HostSlots> hosts;        ///< none: this one
  std::vector<std::string> launcher;   ///< words before a host's name and a command line; none: ssh
  std::string head_address;            ///< by which the hosts reach this one; empty: found out
  std::vector<std::string> container;  ///< words of the command to which a rank's program is appended
  std::string rendezvous;  ///< folder to offer the region in; empty: as the container's engine needs it
  OutputMode output = OutputMode::automatic;
  std::optional<std::chrono::duration<double>> timeout;
  bool outlive = false;                 ///< ranks go on when others have died
  std::uint32_t ranks_per_process = 1;  ///< more: they take turns
  std::uint32_t workers = 1;            ///< threads of such a process, on which they do
  bool migratable = false;              ///< they may go on in other processes
  bool verbose = false;
  bool report_bindings = false;
  GpuBind gpu_bind;
  bool compatible_environment = true;  ///< ranks get the variables of other launchers too
  std::vector<std::string> notes;      ///< what was accepted and has no effect
};

/// What the command line asks for: a job, a text to print (--help, --version), or an error in one sentence.
struct PrintAndExit {
  std::string text;
};
struct UsageError {
  std::string text;
};
using Request = std::variant<Options, PrintAndExit, UsageError>;

/// `arguments` without the program's own name.
Request parse(const std::vector<std::string>& arguments);

}  // namespace isthmus::mpiexec
