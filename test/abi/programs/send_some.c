/* Rank 0 calls MPI_Send five times and every rank takes part in collectives, whose messages are none of
   MPI_Send's. With -DWITH_TOOL the tool is part of the program. */

#include <mpi.h>

#ifdef WITH_TOOL
#include "count_sends.c"
#endif

int main(int argc, char** argv) {
  int rank, size, i, other, value = 0, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (i = 0; i < 5; ++i) {
    if (rank == 0) MPI_Send(&i, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    if (rank == 1) {
      MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (value != i) MPI_Abort(MPI_COMM_WORLD, 2);
    }
  }
  MPI_Bcast(&value, 1, MPI_INT, 1, MPI_COMM_WORLD);
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  other = rank ^ 1;
  if (other < size)
    MPI_Sendrecv(&sum, 1, MPI_INT, other, 1, &value, 1, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (sum != 4 * size) MPI_Abort(MPI_COMM_WORLD, 3);
  MPI_Finalize();
  return 0;
}
