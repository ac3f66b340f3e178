/* A message to another host from or to a program that has opened all the files that it may: `few_files 0`,
   `1` or `both`, who has. Two ranks on two hosts, which have not spoken before. Who has computes first, so
   that rank 0 connects to a process that is not in MPI. */
#define _DEFAULT_SOURCE  // usleep
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int rank, word = 7, code;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (!strcmp(argv[1], "both") || atoi(argv[1]) == rank) {
    const struct rlimit most = {400, 400};
    if (setrlimit(RLIMIT_NOFILE, &most) != 0) perror("setrlimit");
    while (open("/dev/null", O_RDONLY) >= 0) {
    }
    if (rank == 1) usleep(100000);
  }
  if (rank == 0)
    code = MPI_Send(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
  else
    code = MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS || word != 7) printf("rank %d: code %d, word %d\n", rank, code, word);
  MPI_Finalize();
  return code != MPI_SUCCESS || word != 7;
}
