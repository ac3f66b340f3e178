// Thread-local variables that fill the room that there is for them: what libraries keep for a thread lies
// elsewhere.
#include <mpi.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

constexpr int room = 16384;
static thread_local unsigned char all[room];

int main(int argc, char** argv) {
  int rank = 0, size = 0, failures = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::memset(all, 1 + rank, room);
  for (int i = 0; i < 20; ++i) {
    errno = 100 + rank;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(MPI_Send(&i, 1, MPI_INT, size, 0, MPI_COMM_WORLD), text, &length);
    failures += std::strstr(text, "MPI_Send") == nullptr;
    try {
      throw std::runtime_error("in flight");
    } catch (const std::runtime_error& error) {
      MPI_Barrier(MPI_COMM_WORLD);
      failures += std::strcmp(error.what(), "in flight") != 0;
    }
    failures += errno != 100 + rank;
    failures += !std::all_of(all, all + room, [&](unsigned char each) { return each == 1 + rank; });
    std::memset(all, 1 + rank, room);
  }
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%d ranks, %d failures\n", size, failures);
  MPI_Finalize();
  return failures != 0;
}
