#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"

namespace isthmus::launch {

/// What the environment of a process says of its PMI-1 or PMI-2 launcher.
struct PmiPlace {
  UniqueFd fd;             ///< PMI_FD
  std::uint32_t rank = 0;  ///< PMI_RANK
  std::uint32_t size = 1;  ///< PMI_SIZE
  std::string job;         ///< PMI_JOBID; empty where it is not set
};

}  // namespace isthmus::launch
