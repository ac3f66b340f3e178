/* The same program as host/start_stop.c without MPI: what starting and holding a process costs at least. */
#include "common/resident.h"

int main(int argc, char** argv) {
  if (argc > 1 && bench_resident_append(argv[1]) != 0) {
    perror(argv[1]);
    return 1;
  }
  return 0;
}
