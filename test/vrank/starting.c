// A rank that is killed before the job has started: VICTIM at MOMENT, which is "constructor", "main" (before
// MPI_Init) or "init" (right behind it). The others meet, and end well if nobody is killed.
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void die_at(const char* moment) {
  const char* rank = getenv("ISTHMUS_WORLD_RANK");
  const char* victim = getenv("VICTIM");
  const char* wanted = getenv("MOMENT");
  if (rank && victim && wanted && strcmp(rank, victim) == 0 && strcmp(moment, wanted) == 0) raise(SIGKILL);
}

__attribute__((constructor)) static void construct(void) {
  die_at("constructor");
}

int main(int argc, char** argv) {
  die_at("main");
  MPI_Init(&argc, &argv);
  die_at("init");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
