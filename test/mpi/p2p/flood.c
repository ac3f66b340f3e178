// ranks: 3
// A rank that waits for one peer while another sends it far more than it has room for: memory stays bounded,
// the peer waits, and everything arrives in order. Then a receive behind the flood finds its message, and one
// behind far more than there is room for ends with an error.
#define _DEFAULT_SOURCE  // setenv, getrusage
#include <mpi.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "../check.h"

enum { messages = 300000, few = 8000, flood = 1, special = 2, go = 3 };

static long peak_megabytes(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

static void receive_flood(int count) {
  for (int i = 0; i < count; ++i) {
    long got = -1;
    MPI_Recv(&got, 1, MPI_LONG, 1, flood, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (got != i) CHECK(got == i);
  }
}

// Nonblocking, so that the sender goes on: the standard promises that all of this ends.
static void send_flood(int count, int then) {
  long* data = malloc((size_t)count * sizeof *data);
  MPI_Request* requests = malloc((size_t)count * sizeof *requests);
  for (int i = 0; i < count; ++i) {
    data[i] = i;
    MPI_Isend(&data[i], 1, MPI_LONG, 0, flood, MPI_COMM_WORLD, &requests[i]);
  }
  if (then == special) {
    MPI_Send(NULL, 0, MPI_INT, 0, special, MPI_COMM_WORLD);
  } else {
    MPI_Send(NULL, 0, MPI_INT, 2, go, MPI_COMM_WORLD);
  }
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  free(requests);
  free(data);
}

int main(int argc, char** argv) {
  setenv("ISTHMUS_UNEXPECTED_LIMIT", "1M", 1);
  setenv("ISTHMUS_WARN", "0", 1);
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);

  const long before = peak_megabytes();
  if (rank == 0) {
    MPI_Recv(NULL, 0, MPI_INT, 2, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    receive_flood(messages);
    CHECK(peak_megabytes() - before < 40);
  } else if (rank == 1) {
    send_flood(messages, go);
  } else {
    MPI_Recv(NULL, 0, MPI_INT, 1, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(NULL, 0, MPI_INT, 0, go, MPI_COMM_WORLD);
  }
  MPI_Barrier(MPI_COMM_WORLD);

  if (rank == 0) {
    MPI_Probe(1, special, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(NULL, 0, MPI_INT, 1, special, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    receive_flood(few);
  } else if (rank == 1) {
    send_flood(few, special);
  }
  MPI_Barrier(MPI_COMM_WORLD);

  if (rank == 0) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPI_Recv(NULL, 0, MPI_INT, 1, special, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_ERR_NO_MEM);
    CHECK(MPI_Probe(1, special, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_ERR_NO_MEM);
    receive_flood(messages);
    CHECK(MPI_Recv(NULL, 0, MPI_INT, 1, special, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(peak_megabytes() - before < 40);
  } else if (rank == 1) {
    send_flood(messages, special);
  }
  MPI_Finalize();
  return 0;
}
