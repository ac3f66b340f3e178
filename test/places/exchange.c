/* Each rank sends 0 B to 32 MiB, or to as many bytes as the argument says, to the next and checks every byte
 * of what it gets; then says with how many it shares a host. With HIDDEN in its environment no other process
 * may look into it but those that may look into all; with ALLOCATED, buffers are of MPI_Alloc_mem. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* No two pieces of a message are alike, so that one in another's place is noticed. */
static unsigned char expected(int rank, size_t size, size_t i) {
  const unsigned word = ((unsigned)i + (unsigned)rank * 40503u + (unsigned)size) * 2654435761u;
  return (unsigned char)(word >> 24 ^ word >> 11);
}

static unsigned char* take(size_t bytes) {
  unsigned char* memory = NULL;
  if (getenv("ALLOCATED"))
    MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory);
  else
    memory = malloc(bytes);
  memset(memory, 0, bytes);
  return memory;
}

static void give_back(unsigned char* memory) {
  if (getenv("ALLOCATED"))
    MPI_Free_mem(memory);
  else
    free(memory);
}

static int exchange(int rank, int ranks, size_t size) {
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  int wrong = 0;
  unsigned char* out = take(size + 1);
  unsigned char* in = take(size + 1);
  for (size_t i = 0; i < size; ++i)
    out[i] = expected(rank, size, i);
  MPI_Sendrecv(out, (int)size, MPI_BYTE, next, 1, in, (int)size, MPI_BYTE, previous, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (size_t i = 0; i < size; ++i)
    wrong += in[i] != expected(previous, size, i);
  give_back(out);
  give_back(in);
  return wrong;
}

int main(int argc, char** argv) {
  const size_t most = argc > 1 ? strtoul(argv[1], NULL, 10) : (size_t)32 << 20;
  int rank = 0;
  int ranks = 0;
  if (getenv("HIDDEN")) prctl(PR_SET_DUMPABLE, 0);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int wrong = exchange(rank, ranks, 0) + exchange(rank, ranks, 1);
  for (size_t size = 2; size <= most; size *= 8)
    wrong += exchange(rank, ranks, size);
  MPI_Comm host;
  int members = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &members);
  MPI_Comm_free(&host);
  printf("rank %d: %d wrong, shares memory with %d of %d\n", rank, wrong, members, ranks);
  MPI_Finalize();
  return wrong != 0;
}
