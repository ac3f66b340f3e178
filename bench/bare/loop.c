/* The same calls as Isthmus Bench, as somebody would write them down who has no suite: what the suite reports
 * must agree with this within 2 % (tools/bench/agree.py).
 *
 *   mpiexec -n 2 loop latency|bw|allreduce|bcast BYTES ITERATIONS     prints the microseconds of one
 * operation (latency: one way) */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { window = 64, chunks = 501 };

static int rank;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double latency(char* out, char* in, int bytes, long iterations) {
  const double start = now();
  for (long i = 0; i < iterations; ++i) {
    if (rank == 0) {
      MPI_Send(out, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
      MPI_Recv(in, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(in, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(out, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
  }
  return (now() - start) / 2;
}

static double bandwidth(char* out, char* in, int bytes, long iterations) {
  MPI_Request requests[window];
  int token = 0;
  const double start = now();
  for (long i = 0; i < iterations; ++i) {
    if (rank == 0) {
      for (int k = 0; k < window; ++k)
        MPI_Isend(out, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[k]);
      MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
      MPI_Recv(&token, 4, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      for (int k = 0; k < window; ++k)
        MPI_Irecv(in, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[k]);
      MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
      MPI_Send(&token, 4, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    }
  }
  return now() - start;
}

static double allreduce(char* out, char* in, int bytes, long iterations) {
  double sum = 0;
  for (long i = 0; i < iterations; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = now();
    MPI_Allreduce(out, in, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    sum += now() - start;
  }
  return sum;
}

static double broadcast(char* out, char* in, int bytes, long iterations) {
  double sum = 0;
  (void)out;
  for (long i = 0; i < iterations; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = now();
    MPI_Bcast(in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    sum += now() - start;
  }
  return sum;
}

static int by_size(const void* a, const void* b) {
  const double first = *(const double*)a, second = *(const double*)b;
  return first < second ? -1 : first > second;
}

int main(int argc, char** argv) {
  int ranks;
  double mine, sum = 0, times[chunks];
  double (*run)(char*, char*, int, long);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 4 || ranks != 2) {
    if (rank == 0) fprintf(stderr, "usage: mpiexec -n 2 loop latency|bw|allreduce|bcast BYTES ITERATIONS\n");
    MPI_Finalize();
    return 2;
  }
  const int bytes = atoi(argv[2]);
  const long iterations = atol(argv[3]);
  const size_t pages = ((size_t)bytes + 4095) / 4096 * 4096 + 4096;
  char* const out = aligned_alloc(4096, pages);
  char* const in = aligned_alloc(4096, pages);
  memset(out, 0, pages);
  memset(in, 0, pages);
  run = strcmp(argv[1], "latency") == 0 ? latency
        : strcmp(argv[1], "bw") == 0    ? bandwidth
        : strcmp(argv[1], "bcast") == 0 ? broadcast
                                        : allreduce;
  run(out, in, bytes, iterations);
  for (int i = 0; i < chunks; ++i)
    times[i] = run(out, in, bytes, iterations) / (double)iterations;
  qsort(times, chunks, sizeof times[0], by_size);
  mine = times[chunks / 2];
  MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%.9g\n", (run == latency || run == bandwidth ? mine : sum / ranks) * 1e6);
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
