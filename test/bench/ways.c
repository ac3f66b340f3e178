// Rank 0 sends messages to rank 1, one at a time: BYTES COUNT [SLOWED [COMPUTES]]. After COUNT of them copies
// by the kernel become slow (slow_copies.c), or copies through memory (slow_memory.c), and SLOWED more
// follow. The sender computes for COMPUTES microseconds while each is under way. Rank 1 looks at every byte.
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
  unsigned char* const data = malloc(bytes);
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
      MPI_Request request;
      memset(data, i & 255, bytes);
      MPI_Isend(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
      compute(computes);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      MPI_Recv(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int at = 0; at < bytes; ++at)
        if (data[at] != (i & 255)) {
          fprintf(stderr, "message %d: byte %d is wrong\n", i, at);
          MPI_Abort(MPI_COMM_WORLD, 3);
        }
      MPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
  }
  free(data);
  MPI_Finalize();
  return 0;
}
