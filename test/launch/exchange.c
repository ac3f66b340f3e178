// Two or more ranks that exchange messages of 0 B to 32 MiB with their neighbours and check every byte. With
// an argument, rank 1 then does what it says: `exit`, `sleep` or `transfer`, which is to exchange long
// messages for ever (and all others with it), `abort`; `input` has rank 0 print its standard input. With
// ALLOCATED in its environment, buffers are of MPI_Alloc_mem.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { most = 32 << 20, minute = 60 };

// No two pieces of a message are alike, so that one in another's place is noticed.
static unsigned char expected(size_t at, int from, size_t bytes) {
  const unsigned word = ((unsigned)at + (unsigned)from * 40503u + (unsigned)bytes) * 2654435761u;
  return (unsigned char)(word >> 24 ^ word >> 11);
}

static int wrong(const unsigned char* data, int from, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    if (data[i] != expected(i, from, bytes)) return 1;
  return 0;
}

static int exchange(unsigned char* out, unsigned char* in, size_t bytes, int rank, int size) {
  const int next = (rank + 1) % size;
  const int last = (rank + size - 1) % size;
  for (size_t i = 0; i < bytes; ++i)
    out[i] = expected(i, rank, bytes);
  memset(in, 0, bytes);
  MPI_Sendrecv(out, (int)bytes, MPI_BYTE, next, 1, in, (int)bytes, MPI_BYTE, last, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  if (!wrong(in, last, bytes)) return 0;
  fprintf(stderr, "rank %d: a message of %zu bytes from rank %d is wrong\n", rank, bytes, last);
  return 1;
}

static void misbehave(const char* what, int rank) {
  if (strcmp(what, "input") == 0 && rank == 0)
    for (int byte; (byte = getchar()) != EOF;)
      putchar(byte);
  fflush(stdout);
  if (strcmp(what, "sleep") == 0) sleep(minute);
  if (strcmp(what, "exit") == 0 && rank == 1) exit(7);
  if (strcmp(what, "abort") == 0 && rank == 1) MPI_Abort(MPI_COMM_WORLD, 9);
}

static unsigned char* take(void) {
  unsigned char* memory = NULL;
  if (getenv("ALLOCATED"))
    MPI_Alloc_mem(most, MPI_INFO_NULL, &memory);
  else
    memory = malloc(most);
  return memory;
}

static void give_back(unsigned char* memory) {
  if (getenv("ALLOCATED"))
    MPI_Free_mem(memory);
  else
    free(memory);
}

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  unsigned char* out = take();
  unsigned char* in = take();
  int failures = exchange(out, in, 0, rank, size);
  for (size_t bytes = 1; bytes <= most; bytes *= 4)
    failures += exchange(out, in, bytes, rank, size);
  failures += exchange(out, in, most, rank, size);
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks, %d failures\n", size, all);
  printf("rank %d is process %d\n", rank, (int)getpid());
  fflush(stdout);
  if (count > 1) misbehave(arguments[1], rank);
  while (count > 1 && strcmp(arguments[1], "transfer") == 0)
    exchange(out, in, most, rank, size);
  give_back(out);
  give_back(in);
  MPI_Finalize();
  return all != 0;
}
