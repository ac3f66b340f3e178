// Calls of a collective among all ranks: bcast|allreduce BYTES COUNT [SLOWED]. After COUNT of them copies by
// the kernel become slow (slow_copies.c), and SLOWED more follow. Every rank looks at every element.
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
  const int sums = strcmp(arguments[1], "allreduce") == 0;
  const int elements = atoi(arguments[2]) / (int)sizeof(int);
  const int before = atoi(arguments[3]);
  const int slowed = count > 4 ? atoi(arguments[4]) : 0;
  int* const data = malloc(sizeof(int) * elements);
  int* const result = malloc(sizeof(int) * elements);
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
    for (int at = 0; at < elements; ++at)
      data[at] = sums || rank == 0 ? i + at + rank : -1;
    if (sums)
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
  free(data);
  free(result);
  MPI_Finalize();
  return 0;
}
