/* What a program sees of a host that falls silent: `program_silent CALL`, of four ranks on two hosts. Each
   needs its partner on the other host, in that call. Says which partner it has lost, and ends. For
   `mpiexec --on-failure continue`; the suite `hosts` runs it. */
#include <mpi-ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../check.h"

int main(int argc, char** argv) {
  enum { bytes = 1 << 24 };
  const char* call = argc > 1 ? argv[1] : "receive";
  int rank = 0, size = 0, error_class = MPI_SUCCESS, code = MPI_SUCCESS;
  char* buffer = calloc(1, bytes);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int partner = (rank + size / 2) % size;
  CHECK_MPI(MPI_Sendrecv(NULL, 0, MPI_BYTE, partner, 1, NULL, 0, MPI_BYTE, partner, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE));
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  printf("up %d\n", rank);
  fflush(stdout);
  /* Goes on until the other host is no more. */
  while (code == MPI_SUCCESS) {
    if (!strcmp(call, "receive"))
      code = MPI_Recv(buffer, bytes, MPI_BYTE, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (!strcmp(call, "send"))
      code = MPI_Ssend(buffer, bytes, MPI_BYTE, partner, 2, MPI_COMM_WORLD);
    else if (!strcmp(call, "exchange"))
      code = MPI_Sendrecv_replace(buffer, bytes, MPI_BYTE, partner, 2, partner, 2, MPI_COMM_WORLD,
                                  MPI_STATUS_IGNORE);
    else
      code = MPI_Allreduce(MPI_IN_PLACE, buffer, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Error_class(code, &error_class);
  CHECK_EQUAL(error_class, MPI_ERR_PROC_ABORTED);
  printf("rank %d has lost %d\n", rank, partner);
  fflush(stdout);
  MPI_Finalize();
  free(buffer);
  return 0;
}
