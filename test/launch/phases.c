// Three or more ranks that stay in one phase of a job for a minute, so that one of them can be killed there.
// Each says "RANK PID" just before it goes in.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { minute = 60, elements = 2 << 20 };  // 16 MiB of doubles: a rendezvous

static void say_where(void) {
  printf("%s %d\n", getenv("ISTHMUS_WORLD_RANK"), (int)getpid());
  fflush(stdout);
}

static int rank_of(void) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

static int size_of(void) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

// The last rank keeps the others waiting for it.
static void wait_for_last(const char* phase) {
  say_where();
  if (rank_of() == size_of() - 1) sleep(minute);
  if (strcmp(phase, "barrier") == 0) MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(phase, "receive") == 0) {
    int word = 0;
    MPI_Recv(&word, 1, MPI_INT, size_of() - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  // "finalize" goes on to MPI_Finalize
}

// All ranks stay inside copies and collectives, one after the other.
static void work(const char* phase) {
  double* out = calloc(elements, sizeof *out);
  double* in = calloc(elements, sizeof *in);
  const int next = (rank_of() + 1) % size_of();
  const int last = (rank_of() + size_of() - 1) % size_of();
  say_where();
  for (double end = MPI_Wtime() + minute; MPI_Wtime() < end;) {
    if (strcmp(phase, "rendezvous") == 0)
      MPI_Sendrecv(out, elements, MPI_DOUBLE, next, 0, in, elements, MPI_DOUBLE, last, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
    else if (strcmp(phase, "eager") == 0)
      MPI_Sendrecv(out, 1, MPI_DOUBLE, next, 0, in, 1, MPI_DOUBLE, last, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
    else
      MPI_Allreduce(out, in, strcmp(phase, "allreduce") == 0 ? 1 : elements, MPI_DOUBLE, MPI_SUM,
                    MPI_COMM_WORLD);
  }
  free(out);
  free(in);
}

int main(int count, char** arguments) {
  const char* phase = count > 1 ? arguments[1] : "";
  if (strcmp(phase, "before-init") == 0) {
    say_where();
    sleep(minute);
  }
  if (strcmp(phase, "init") == 0) {
    say_where();
    const char* rank = getenv("ISTHMUS_WORLD_RANK");
    if (rank && strcmp(rank, "0") == 0) sleep(minute);
  }
  MPI_Init(&count, &arguments);
  if (strcmp(phase, "init") == 0) MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(phase, "barrier") == 0 || strcmp(phase, "receive") == 0 || strcmp(phase, "finalize") == 0)
    wait_for_last(phase);
  else if (strcmp(phase, "after-finalize") != 0)
    work(phase);
  MPI_Finalize();
  if (strcmp(phase, "after-finalize") == 0) {
    say_where();
    sleep(minute);
  }
  return 0;
}
