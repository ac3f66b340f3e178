// Calls of a collective among all ranks: bcast|allreduce BYTES COUNT [SLOWED]. After COUNT of them copies by
// the kernel become slow (slow_copies.c), and SLOWED more follow. Every rank looks at every element.
//
// ibcast|bcast_init|iallreduce|allreduce_init BYTES COUNT MORE: COUNT calls that block, then MORE that do
// not, or starts of a persistent one. Copies are slow from the start on where slow_copies.c is preloaded.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char** arguments) {
  int rank, size;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int sums = strstr(arguments[1], "allreduce") != NULL;
  const int starts = arguments[1][0] == 'i';
  const int restarts = strstr(arguments[1], "_init") != NULL;
  const int elements = atoi(arguments[2]) / (int)sizeof(int);
  const int before = atoi(arguments[3]);
  const int slowed = count > 4 ? atoi(arguments[4]) : 0;
  int* const data = malloc(sizeof(int) * elements);
  int* const result = malloc(sizeof(int) * elements);
  MPI_Request request = MPI_REQUEST_NULL;
  if (starts || restarts) {
    int* const slow = dlsym(RTLD_DEFAULT, "slow_copies");
    if (slow) *slow = 1;
  }
  for (int i = 0; i < before + slowed; ++i) {
    if (i == before && !starts && !restarts) {
      int* slow = dlsym(RTLD_DEFAULT, "slow_copies");
      if (!slow) slow = dlsym(RTLD_DEFAULT, "slow_memory");
      if (!slow) {
        fputs("neither slow_copies.c nor slow_memory.c is preloaded\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 2);
      }
      *slow = 1;
    }
    for (int at = 0; at < elements; ++at)
      data[at] = sums || rank == 0 ? i + at + rank : -1;
    if (i >= before && (starts || restarts)) {
      if (starts && sums)
        MPI_Iallreduce(data, result, elements, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
      else if (starts)
        MPI_Ibcast(data, elements, MPI_INT, 0, MPI_COMM_WORLD, &request);
      else if (i == before && sums)
        MPI_Allreduce_init(data, result, elements, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
      else if (i == before)
        MPI_Bcast_init(data, elements, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
      if (restarts) MPI_Start(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (sums)
      MPI_Allreduce(data, result, elements, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else
      MPI_Bcast(data, elements, MPI_INT, 0, MPI_COMM_WORLD);
    for (int at = 0; at < elements; ++at) {
      const int wanted = sums ? size * (i + at) + size * (size - 1) / 2 : i + at;
      if ((sums ? result : data)[at] != wanted) {
        fprintf(stderr, "call %d: element %d is wrong\n", i, at);
        MPI_Abort(MPI_COMM_WORLD, 3);
      }
    }
  }
  if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  free(data);
  free(result);
  MPI_Finalize();
  return 0;
}
