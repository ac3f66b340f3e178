/* What virtual ranks gain by balancing, and what it costs that one moves (docs/virtual-ranks.md).
 *
 *     balance imbalance THOUSANDS RATIO ITERATIONS
 *
 * A domain whose first half takes RATIO times as long to compute as its second, dealt to the ranks in equal
 * parts; all of it takes so many thousand steps of 8 cycles an iteration, however many ranks there are. After
 * each iteration a rank exchanges 8 KiB with both neighbours. Prints the milliseconds of an iteration before
 * MPIX_Load_balance and after it, and how long that took. With a rank a core the two are the same.
 *
 *     balance migrate
 *
 * How long it takes that rank 0 moves to the next worker, and how much longer 1 MiB of its heap takes to read
 * there.
 *
 *     balance far BYTES [WRITTEN]
 *
 * How long it takes that rank 0 goes on with the next worker of the host, in another process (mpiexec
 * --migratable --ranks-per-process N), with so many bytes of heap, of which it has written so many. */
#include <mpi-ext.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { halo = 8192, blocks = 15 };

static int rank, size;
static volatile double sink;

/* Work that takes as long wherever it is done: a chain of multiplications. */
static void compute(long steps) {
  double value = 1;
  for (long i = 0; i < steps; ++i)
    value = value * 1.0000001 + 1e-9;
  sink = value;
}

static int ascending(const void* a, const void* b) {
  const double left = *(const double*)a, right = *(const double*)b;
  return (left > right) - (left < right);
}

static double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, ascending);
  return values[count / 2];
}

static void iterate(long steps, int iterations) {
  static char send[2][halo], receive[2][halo];
  const int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
  for (int i = 0; i < iterations; ++i) {
    MPI_Request requests[4];
    MPI_Irecv(receive[0], halo, MPI_CHAR, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(receive[1], halo, MPI_CHAR, right, 1, MPI_COMM_WORLD, &requests[1]);
    compute(steps);
    MPI_Isend(send[0], halo, MPI_CHAR, left, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(send[1], halo, MPI_CHAR, right, 0, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  }
}

/* Median over blocks of an iteration, in milliseconds. */
static double measure(long steps, int iterations) {
  double took[blocks];
  for (int i = 0; i < blocks; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    iterate(steps, iterations);
    MPI_Barrier(MPI_COMM_WORLD);
    took[i] = (MPI_Wtime() - begin) * 1000 / iterations;
  }
  return median(took, blocks);
}

static int imbalance(double thousands, double ratio, int iterations) {
  /* Of a rank whose part is heavy in the share `heavy`. */
  double heavy = (size / 2.0 - rank);
  heavy = heavy < 0 ? 0 : heavy > 1 ? 1 : heavy;
  const double weight = heavy * ratio + (1 - heavy);
  const long steps = (long)(1000 * thousands * weight / (size * (ratio + 1) / 2));
  const double before = measure(steps, iterations);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  MPIX_Load_balance();
  MPI_Barrier(MPI_COMM_WORLD);
  const double balancing = (MPI_Wtime() - begin) * 1e6;
  const double after = measure(steps, iterations);
  int worker, workers;
  MPIX_Get_worker(&worker, &workers);
  if (rank == 0)
    printf(
        "%d ranks, %d workers in a process, ratio %g: %.3f ms an iteration, then %.3f; balanced in %.0f us\n",
        size, workers, ratio, before, after, balancing);
  return 0;
}

/* The median of moving and of reading `bytes` behind it, in microseconds. */
static double move(int workers, const char* memory, size_t bytes) {
  enum { moves = 2001 };
  static double took[moves];
  for (int i = 0; i < moves; ++i) {
    const double begin = MPI_Wtime();
    if (workers > 1) MPIX_Migrate((i + 1) % workers);
    long sum = 0;
    for (size_t at = 0; at < bytes; at += 64)
      sum += memory[at];
    sink = (double)sum;
    took[i] = (MPI_Wtime() - begin) * 1e6;
  }
  return median(took, moves);
}

static int migrate(void) {
  enum { bytes = 1 << 20 };
  int worker, workers;
  MPIX_Get_worker(&worker, &workers);
  char* const memory = malloc(bytes);
  if (!memory) return 1;
  memset(memory, rank, bytes);
  if (rank == 0) {
    MPIX_Migrate(0);
    const double empty = move(workers, memory, 0);
    const double stays = move(1, memory, bytes), moves = move(workers, memory, bytes);
    printf("%d ranks, %d workers: a move %.2f us; reading 1 MiB %.1f us, moving and reading it %.1f us\n",
           size, workers, empty, stays, moves);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  free(memory);
  return 0;
}

/* How long it takes that rank 0, with `bytes` of heap of which it has written the first, goes to the next
 * worker and back, and that all ranks meet for a move which none makes. */
static int far(size_t bytes, size_t written) {
  enum { moves = 201 };
  static double took[2][moves];
  int home, worker, workers;
  MPIX_Get_worker(&home, &workers);
  char* const memory = malloc(bytes + 1);
  if (!memory) return 1;
  memset(memory, 1, written);
  for (int all = 0; all < 2; ++all)
    for (int i = 0; i < moves; ++i) {
      MPIX_Get_worker(&worker, &workers);
      const int next = (home + 1) % workers, to = worker == home ? next : home;
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      MPIX_Migrate_all(all && rank == 0 ? to : worker);
      MPI_Barrier(MPI_COMM_WORLD);
      took[all][i] = (MPI_Wtime() - begin) * 1e6;
    }
  if (rank == 0)
    printf(
        "%d ranks, %d workers: a move of rank 0 with %zu KiB, %zu written, %.0f us; without a move %.1f us\n",
        size, workers, bytes >> 10, written >> 10, median(took[1], moves), median(took[0], moves));
  free(memory);
  return 0;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int status = 2;
  if (argc == 5 && strcmp(argv[1], "imbalance") == 0)
    status = imbalance(atof(argv[2]), atof(argv[3]), atoi(argv[4]));
  else if (argc == 2 && strcmp(argv[1], "migrate") == 0)
    status = migrate();
  else if (argc == 3 && strcmp(argv[1], "far") == 0)
    status = far((size_t)atol(argv[2]), (size_t)atol(argv[2]));
  else if (argc == 4 && strcmp(argv[1], "far") == 0)
    status = far((size_t)atol(argv[2]), (size_t)atol(argv[3]));
  else if (rank == 0)
    fprintf(stderr, "balance imbalance THOUSANDS RATIO ITERATIONS | migrate | far BYTES [WRITTEN]\n");
  MPI_Finalize();
  return status;
}
