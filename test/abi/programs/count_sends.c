/* A tool in the sense of the profiling interface: counts the program's calls of MPI_Send and tells them at
 * MPI_Finalize. */

#include <mpi.h>
#include <stdio.h>

static int sends;

int MPI_Send(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  ++sends;
  return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int MPI_Finalize(void) {
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "tool: rank %d called MPI_Send %d times\n", rank, sends);
  return PMPI_Finalize();
}
