/* ISTHMUS_PROGRESS=thread with a core for the thread: who calls a long collective that others have begun
 * computes nothing before the call returns, and the thread does it while the program is not in MPI. ranks: 2
 */
#include <unistd.h>

#include <atomic>
#include <vector>

#include "../check.h"

/* The thread that has combined something since it was asked last. */
static std::atomic<pid_t> combiner{0};

static void add(void* in, void* inout, int* count, MPI_Datatype*) {
  combiner.store(gettid());
  for (int i = 0; i < *count; ++i)
    static_cast<int*>(inout)[i] += static_cast<const int*>(in)[i];
}

/* Rank 0 is not in MPI from its call on until its part has been done, and rank 1 comes later. */
static void hands_over(int rank, MPI_Op op, int count) {
  std::vector<int> in((size_t)count, rank + 3), out((size_t)count, -1);
  MPI_Request request;
  combiner.store(0);
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 1) usleep(50'000);
  CHECK_MPI(MPI_Iallreduce(in.data(), out.data(), count, MPI_INT, op, MPI_COMM_WORLD, &request));
  for (int i = 0; i < 30000 && combiner.load() == 0; ++i)
    usleep(1000);
  CHECK(combiner.load() != 0 && combiner.load() != getpid());
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK(out == std::vector<int>((size_t)count, 7));
}

int main(int argc, char** argv) {
  setenv("ISTHMUS_PROGRESS", "thread", 1);
  /* As mpiexec would say it where there is one. */
  setenv("ISTHMUS_SPARE_CPUS", "0", 1);
  MPI_Init(&argc, &argv);
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(add, 1, &op);
  for (const int count : {1 << 15, 1 << 18, 1 << 20})
    for (int i = 0; i < 3; ++i)
      hands_over(rank, op, count);
  MPI_Op_free(&op);
  MPI_Finalize();
  return 0;
}
