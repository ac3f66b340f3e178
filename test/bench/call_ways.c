// Calls of a collective among all ranks: bcast|allreduce|allgather BYTES COUNT [SLOWED]. After COUNT of them
// copies by the kernel become slow (slow_copies.c), or those through memory (slow_memory.c), and SLOWED more
// follow; where both are preloaded, copies by the kernel are slow before, and those through memory from then
// on. Every rank looks at every element, of an allgather at the last rank's.
//
// ibcast|bcast_init|iallreduce|allreduce_init BYTES COUNT MORE [COMPUTES [AT_ONCE]]: COUNT calls that block,
// then MORE that do not, or starts of a persistent one; each rank computes for COMPUTES microseconds while
// one is under way. Of nonblocking bcasts AT_ONCE are started before the first is waited for. Copies are slow
// from the start on where slow_copies.c is preloaded.
//
// iallreduce_float|allreduce_init_float: sums of numbers whose last bits depend on the order in which they
// are added; rank 0 prints what all bits of all results come to.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void compute(int microseconds) {
  const double started = MPI_Wtime();
  while (1e6 * (MPI_Wtime() - started) < microseconds) {
  }
}

/// `calls` bcasts of each element's number, `at_once` under way.
static void many_at_once(int* data, int elements, int calls, int at_once) {
  MPI_Request requests[64];
  int* const all = malloc(sizeof(int) * elements * at_once);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int begun = 0; begun < calls; begun += at_once) {
    for (int i = 0; i < at_once; ++i) {
      for (int at = 0; at < elements; ++at)
        all[i * elements + at] = rank == 0 ? begun + i + at : -1;
      MPI_Ibcast(all + i * elements, elements, MPI_INT, 0, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(at_once, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < at_once * elements; ++i)
      if (all[i] != begun + i / elements + i % elements) {
        fprintf(stderr, "call %d: element %d is wrong\n", begun + i / elements, i % elements);
        MPI_Abort(MPI_COMM_WORLD, 3);
      }
  }
  free(all);
}

int main(int count, char** arguments) {
  int rank, size;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int sums = strstr(arguments[1], "allreduce") != NULL;
  const int gathers = strcmp(arguments[1], "allgather") == 0;
  const int starts = arguments[1][0] == 'i';
  const int restarts = strstr(arguments[1], "_init") != NULL;
  const int floats = strstr(arguments[1], "_float") != NULL;
  const MPI_Datatype type = floats ? MPI_FLOAT : MPI_INT;
  unsigned long long bits = 0;
  const int elements = atoi(arguments[2]) / (int)sizeof(int);
  const int before = atoi(arguments[3]);
  int slowed = count > 4 ? atoi(arguments[4]) : 0;
  const int computes = count > 5 ? atoi(arguments[5]) : 0;
  const int at_once = count > 6 ? atoi(arguments[6]) : 1;
  int* const data = malloc(sizeof(int) * elements);
  int* const result = malloc(sizeof(int) * elements * (gathers ? size : 1));
  MPI_Request request = MPI_REQUEST_NULL;
  int* const slow_copies = dlsym(RTLD_DEFAULT, "slow_copies");
  int* const slow_memory = dlsym(RTLD_DEFAULT, "slow_memory");
  if (slow_copies && (starts || restarts || slow_memory)) *slow_copies = 1;
  if (at_once > 1 && at_once <= 64) {
    many_at_once(data, elements, slowed, at_once);
    slowed = 0;
  }
  for (int i = 0; i < before + slowed; ++i) {
    if (i == before && !starts && !restarts) {
      if (!slow_copies && !slow_memory) {
        fputs("neither slow_copies.c nor slow_memory.c is preloaded\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 2);
      }
      if (slow_copies) *slow_copies = !slow_memory;
      if (slow_memory) *slow_memory = 1;
    }
    for (int at = 0; at < elements; ++at)
      if (floats)
        ((float*)data)[at] = 1.0f / (float)(1 + i + at + 3 * rank);
      else
        data[at] = sums || gathers || rank == 0 ? i + at + rank : -1;
    if (i >= before && (starts || restarts)) {
      if (starts && sums)
        MPI_Iallreduce(data, result, elements, type, MPI_SUM, MPI_COMM_WORLD, &request);
      else if (starts)
        MPI_Ibcast(data, elements, MPI_INT, 0, MPI_COMM_WORLD, &request);
      else if (i == before && sums)
        MPI_Allreduce_init(data, result, elements, type, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
      else if (i == before)
        MPI_Bcast_init(data, elements, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
      if (restarts) MPI_Start(&request);
      compute(computes);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (sums)
      MPI_Allreduce(data, result, elements, type, MPI_SUM, MPI_COMM_WORLD);
    else if (gathers)
      MPI_Allgather(data, elements, MPI_INT, result, elements, MPI_INT, MPI_COMM_WORLD);
    else
      MPI_Bcast(data, elements, MPI_INT, 0, MPI_COMM_WORLD);
    for (int at = 0; floats && at < elements; ++at)
      bits = bits * 1099511628211ULL + (unsigned)result[at];
    const int last = size - 1;
    for (int at = 0; !floats && at < elements; ++at) {
      const int wanted = sums ? size * (i + at) + size * last / 2 : gathers ? i + at + last : i + at;
      if ((sums ? result : gathers ? result + last * elements : data)[at] != wanted) {
        fprintf(stderr, "call %d: element %d is wrong\n", i, at);
        MPI_Abort(MPI_COMM_WORLD, 3);
      }
    }
  }
  if (floats && rank == 0) printf("bits %llx\n", bits);
  if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  free(data);
  free(result);
  MPI_Finalize();
  return 0;
}
