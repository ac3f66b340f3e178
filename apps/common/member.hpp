// Who this process is among those of a communicator.
#pragma once

#include <mpi.h>

namespace apps {

struct Member {
  explicit Member(MPI_Comm communicator) : comm(communicator) {
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
  }

  MPI_Comm comm;  // borrowed
  int rank = 0;
  int size = 0;

  // The one process that prints.
  [[nodiscard]] bool speaks() const { return rank == 0; }
};

// Collective.
[[nodiscard]] inline bool on_all(bool here, MPI_Comm comm) {
  int mine = here ? 1 : 0, all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm);
  return all == 1;
}

}  // namespace apps
