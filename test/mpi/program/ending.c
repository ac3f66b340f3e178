/* Ends the way that its first argument says; the suite looks at exit status and message. */
#include "../check.h"

#include <unistd.h>

int main(int argc, char** argv) {
  const char* way = argc > 1 ? argv[1] : "";
  int data = 0, rank, size;
  MPI_Request request;
  if (!strcmp(way, "before-init")) MPI_Send(&data, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  if (!strcmp(way, "wait-before-init")) MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (!strcmp(way, "finalize-before-init")) MPI_Finalize();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (!strcmp(way, "init-twice")) MPI_Init(&argc, &argv);
  if (!strcmp(way, "init-twice-returns")) {
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK_ERROR(MPI_Init(&argc, &argv), MPI_ERR_OTHER, "MPI_Init: MPI is initialized already");
    MPI_Finalize();
    return 0;
  }
  if (!strcmp(way, "finalize")) MPI_Finalize();
  if (!strcmp(way, "after-finalize")) {
    MPI_Finalize();
    MPI_Send(&data, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  }
  if (!strcmp(way, "init-after-finalize")) {
    MPI_Finalize();
    MPI_Init(&argc, &argv);
  }
  printf("printed by rank %d before the end\n", rank);
  if (rank == size - 1) {
    if (!strcmp(way, "tag")) MPI_Send(&data, 1, MPI_INT, 0, -7, MPI_COMM_WORLD);
    if (!strcmp(way, "errors-abort")) {
      MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ABORT);
      MPI_Send(&data, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    if (!strcmp(way, "abort")) MPI_Abort(MPI_COMM_WORLD, 42);
    if (!strcmp(way, "abort-256")) MPI_Abort(MPI_COMM_WORLD, 256);
    if (!strcmp(way, "abort-self")) MPI_Abort(MPI_COMM_SELF, 9);
    if (!strcmp(way, "truncate")) {
      char in[1], out[2] = "a";
      MPI_Sendrecv(out, 2, MPI_CHAR, rank, 0, in, 1, MPI_CHAR, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (!strcmp(way, "call-errhandler")) MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER);
    fprintf(stderr, "rank %d was still there\n", rank);
    return 99;
  }
  /* The others wait for what never comes. */
  MPI_Recv(&data, 1, MPI_INT, size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return 98;
}
