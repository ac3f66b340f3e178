/* apart [TIMES [LONGEST]]: two ranks, the first and the last, exchange what ranks in two virtual machines
 * may: messages of 0 B to LONGEST (4 MiB), whose bytes are compared, and collectives of all. That many TIMES
 * are timed, and "latency MICROSECONDS" (8 B, one way) and "bandwidth MEGABYTES" (1 MiB messages, a second)
 * printed; 0 prints none. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { longest = 4 << 20, large = 1 << 20 };
static unsigned char out[longest], in[longest];
static int rank, size;

static unsigned char byte_of(int sender, int bytes, int i) {
  return (unsigned char)(sender * 31 + bytes * 7 + i * 13 + (i >> 8));
}

static void compare(int sender, int bytes) {
  for (int i = 0; i < bytes; ++i)
    if (in[i] != byte_of(sender, bytes, i)) {
      fprintf(stderr, "rank %d: byte %d of %d from rank %d is wrong\n", rank, i, bytes, sender);
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static void exchange(int peer, int bytes) {
  for (int i = 0; i < bytes; ++i)
    out[i] = byte_of(rank, bytes, i);
  memset(in, 0, (size_t)bytes);
  MPI_Status status;
  int count = -1;
  MPI_Sendrecv(out, bytes, MPI_BYTE, peer, bytes % 1000, in, longest, MPI_BYTE, peer, bytes % 1000,
               MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_BYTE, &count);
  if (count != bytes) MPI_Abort(MPI_COMM_WORLD, 4);
  compare(peer, bytes);
}

static void collect(void) {
  for (int count = 1; count <= 100000; count *= 100) {
    int *mine = malloc(sizeof(int) * (size_t)count), *sum = malloc(sizeof(int) * (size_t)count);
    for (int i = 0; i < count; ++i)
      mine[i] = rank + i;
    MPI_Allreduce(mine, sum, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i)
      if (sum[i] != size * i + size * (size - 1) / 2) MPI_Abort(MPI_COMM_WORLD, 5);
    free(mine);
    free(sum);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static double ping_pong(int peer, int bytes, int times) {
  double begin = 0;
  for (int i = -times / 10; i < times; ++i) {
    if (i == 0) begin = MPI_Wtime();
    if (rank < peer) MPI_Send(out, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
    MPI_Recv(in, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank > peer) MPI_Send(out, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
  }
  return (MPI_Wtime() - begin) / times / 2;
}

/* Several messages on their way at a time, one answer for all. */
static double stream(int peer, int bytes, int times) {
  enum { window = 8 };
  MPI_Request requests[window];
  const double begin = MPI_Wtime();
  for (int i = 0; i < times; ++i) {
    for (int j = 0; j < window; ++j)
      if (rank < peer)
        MPI_Isend(out, bytes, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &requests[j]);
      else
        MPI_Irecv(in, bytes, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &requests[j]);
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(out, 0, MPI_BYTE, peer, 3, in, 0, MPI_BYTE, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  return (MPI_Wtime() - begin) / times / window;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int times = argc > 1 ? atoi(argv[1]) : 0;
  const int most = argc > 2 ? atoi(argv[2]) : longest;
  const int peer = rank == 0 ? size - 1 : rank == size - 1 ? 0 : rank;
  if (peer != rank) {
    exchange(peer, 0);
    for (int bytes = 1; bytes <= most; bytes *= 4) {
      exchange(peer, bytes);
      if (bytes > 1) exchange(peer, bytes - 1);
    }
  }
  collect();
  if (times > 0 && peer != rank) {
    const double latency = ping_pong(peer, 8, times);
    stream(peer, large, 1);
    const double each = stream(peer, large, times / 100 + 1);
    if (rank == 0) printf("latency %.2f\nbandwidth %.1f\n", latency * 1e6, large / each / 1e6);
  }
  if (rank == 0) printf("all right\n");
  MPI_Finalize();
  return 0;
}
