// Rank 0 sends messages to rank 1: BYTES COUNT [SLOWED [COMPUTES [AT_ONCE]]]. AT_ONCE of them, or one, are
// under way together. After COUNT times that many copies by the kernel become slow (slow_copies.c), or copies
// through memory (slow_memory.c), and SLOWED times as many follow. The sender computes for COMPUTES
// microseconds while they are under way. Rank 1 looks at every byte.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void compute(int microseconds) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do
    clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < microseconds);
}

int main(int count, char** arguments) {
  int rank;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int bytes = atoi(arguments[1]);
  const int before = atoi(arguments[2]);
  const int slowed = count > 3 ? atoi(arguments[3]) : 0;
  const int computes = count > 4 ? atoi(arguments[4]) : 0;
  const int at_once = count > 5 ? atoi(arguments[5]) : 1;
  const size_t all = (size_t)bytes * at_once;
  unsigned char* const data = malloc(all);
  MPI_Request* const requests = malloc(sizeof(MPI_Request) * at_once);
  // A message to a rank that has not joined yet goes another way than those behind it.
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < before + slowed; ++i) {
    if (i == before) {
      int* slow = dlsym(RTLD_DEFAULT, "slow_copies");
      if (!slow) slow = dlsym(RTLD_DEFAULT, "slow_memory");
      if (!slow) {
        fputs("neither slow_copies.c nor slow_memory.c is preloaded\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 2);
      }
      *slow = 1;
    }
    if (rank == 0) {
      memset(data, i & 255, all);
      for (int k = 0; k < at_once; ++k)
        MPI_Isend(data + (size_t)k * bytes, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[k]);
      compute(computes);
      MPI_Waitall(at_once, requests, MPI_STATUSES_IGNORE);
      MPI_Recv(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      for (int k = 0; k < at_once; ++k)
        MPI_Irecv(data + (size_t)k * bytes, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[k]);
      MPI_Waitall(at_once, requests, MPI_STATUSES_IGNORE);
      for (size_t at = 0; at < all; ++at)
        if (data[at] != (i & 255)) {
          fprintf(stderr, "message %d: byte %zu is wrong\n", i, at);
          MPI_Abort(MPI_COMM_WORLD, 3);
        }
      MPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
  }
  free(requests);
  free(data);
  MPI_Finalize();
  return 0;
}
