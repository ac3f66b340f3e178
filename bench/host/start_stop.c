/* init, barrier, finalize: timed from outside, around mpiexec. With an argument, every rank appends what it
 * holds in memory to that file between the barrier and MPI_Finalize. Plain C, so that no C++ runtime is
 * counted. */
#include <mpi.h>

#include "common/resident.h"

int main(int argc, char** argv) {
  int failed = 0;
  MPI_Init(&argc, &argv);
  MPI_Barrier(MPI_COMM_WORLD);
  if (argc > 1 && bench_resident_append(argv[1]) != 0) {
    perror(argv[1]);
    failed = 1;
  }
  MPI_Finalize();
  return failed;
}
