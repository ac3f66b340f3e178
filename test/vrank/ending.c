/* Ways in which one of several ranks of a process can end: argv[1] says which, the rank before the last does
 * it. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile char sink;

static int deep(int depth) {
  volatile char frame[4096];
  memset((char*)frame, depth, sizeof frame);
  sink = frame[depth % 4096];
  return depth == 0 ? 0 : deep(depth - 1) + frame[0];
}

static int in_child(void) {
  fflush(stdout);
  switch (fork()) {
    case -1:
      return 1;
    case 0:
      exit(3);
    default:
      return 0;
  }
}

int main(int argc, char** argv) {
  const char* way = argc > 1 ? argv[1] : "";
  int rank, size;
  if (strcmp(way, "before-init") == 0) return 5;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Barrier(MPI_COMM_WORLD);
  const int does = rank == size - 2;
  printf("rank %d is here\n", rank);
  if (does && strcmp(way, "exit") == 0) exit(7);
  if (does && strcmp(way, "return") == 0) return 8;
  if (does && strcmp(way, "silent") == 0) _exit(0);
  if (does && strcmp(way, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 42);
  if (does && strcmp(way, "stack") == 0) return deep(1 << 20);
  if (does && strcmp(way, "deep") == 0) deep(16000);
  if (does && strcmp(way, "segv") == 0) raise(SIGSEGV);
  if (does && strcmp(way, "kill") == 0) raise(SIGKILL);
  if (does && strcmp(way, "fork") == 0 && in_child() != 0) return 1;
  if (does && strcmp(way, "stuck") == 0)
    MPI_Recv(&rank, 1, MPI_INT, 0, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (does && strcmp(way, "rank-error") == 0) MPI_Send(&rank, 1, MPI_INT, 0, -7, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  if (does && strcmp(way, "late") == 0) return 9;
  return 0;
}
