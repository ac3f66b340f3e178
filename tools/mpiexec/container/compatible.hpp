#pragma once

#include <cstdint>
#include <span>

#include "command/environment.hpp"

namespace isthmus::mpiexec {

/// Where a rank is, in numbers.
struct RankNumbers {
  std::uint32_t rank, size;              ///< in MPI_COMM_WORLD
  std::uint32_t local_rank, local_size;  ///< among the ranks of this host
};

/// Variables of other launchers by which programs and their scripts find a rank's number before MPI_Init,
/// most often to choose its GPU. No MPI library takes one of them for a launcher: that needs PMI_FD or
/// PMIx's.
std::span<const char* const> compatible_variables();

void set_compatible_variables(Environment& environment, const RankNumbers& numbers);

}  // namespace isthmus::mpiexec
