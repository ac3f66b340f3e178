#pragma once

#include <mpi.h>

namespace isthmus::observer {

/// Of all processes. Collective.
inline bool all_agree(bool here) {
  int mine = here ? 1 : 0, all = 0;
  PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all == 1;
}

}  // namespace isthmus::observer
