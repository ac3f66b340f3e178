#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vrank/environment.hpp"
#include "vrank/fiber.hpp"
#include "vrank/process/ties.hpp"
#include "vrank/rank_copy.hpp"
#include "vrank/rank_stack.hpp"

namespace isthmus::vrank {

class Process;

/// How far a rank's options have been parsed: enough to bring the C library's parser there again.
struct OptionScan {
  bool has_begun = false;
  int left_at = 1;         ///< `optind` after the last call
  std::vector<int> moves;  ///< before each call: how far the program has moved `optind` itself
};

/// What a process keeps of a rank. Where ranks go on in other processes, it lies in the rank's own memory.
struct Rank {
  Process* process = nullptr;
  std::uint32_t number = 0;  ///< in the job
  std::uint32_t slot = 0;    ///< in the region
  Fiber fiber;
  RankStack stack;
  ThreadLocalRange locals;  ///< when it leaves
  std::optional<Environment> environment;
  std::vector<std::string> words;
  std::vector<char*> arguments;
  RankCopy copy;
  std::uint64_t program_at = 0;        ///< the copy's address
  char** grown_environment = nullptr;  ///< that `setenv` has made
  char** shown_environment = nullptr;  ///< what has been written to the program's `environ`
  OptionScan options;
  bool is_ending = false;
  int status = 0;
};

}  // namespace isthmus::vrank
