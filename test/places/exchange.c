/* Each rank sends 0 B to 32 MiB to the next and checks every byte of what it gets; then says with how many it
 * shares a host. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char expected(int rank, size_t size, size_t i) {
  return (unsigned char)(i * 7 + (size_t)rank * 31 + size);
}

int main(int argc, char** argv) {
  int rank = 0;
  int ranks = 0;
  int wrong = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  for (size_t size = 0; size <= (size_t)32 << 20; size = size ? size * 8 : 1) {
    unsigned char* out = malloc(size + 1);
    unsigned char* in = calloc(size + 1, 1);
    for (size_t i = 0; i < size; ++i)
      out[i] = expected(rank, size, i);
    MPI_Sendrecv(out, (int)size, MPI_BYTE, next, 1, in, (int)size, MPI_BYTE, previous, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (size_t i = 0; i < size; ++i)
      wrong += in[i] != expected(previous, size, i);
    free(out);
    free(in);
  }
  MPI_Comm host;
  int members = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &members);
  MPI_Comm_free(&host);
  printf("rank %d: %d wrong, shares memory with %d of %d\n", rank, wrong, members, ranks);
  MPI_Finalize();
  return wrong != 0;
}
