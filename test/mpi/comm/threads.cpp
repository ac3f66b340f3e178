// Threads that make communicators at the same time: on communicators of their own, and on a common one by
// tag.
#include <thread>
#include <vector>

#include "../check.h"

namespace {

constexpr int threads = 4;
constexpr int rounds = 20;

void work(MPI_Comm own, MPI_Comm common, MPI_Group group, int thread) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(own, &rank);
  MPI_Comm_size(own, &size);
  for (int round = 0; round < rounds; ++round) {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Comm_dup(own, &made);
    int sum = 0;
    const int mine = rank * threads + thread;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, made);
    CHECK_EQUAL(sum, threads * size * (size - 1) / 2 + thread * size);
    MPI_Comm_free(&made);

    MPI_Comm_create_group(common, group, thread, &made);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, made);
    CHECK_EQUAL(sum, threads * size * (size - 1) / 2 + thread * size);
    MPI_Comm_free(&made);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK_EQUAL(provided, MPI_THREAD_MULTIPLE);
  MPI_Group group;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  std::vector<MPI_Comm> own(threads);
  for (MPI_Comm& comm : own)
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<std::thread> workers;
  for (int thread = 0; thread < threads; ++thread)
    workers.emplace_back(
        [&, thread] { work(own[static_cast<std::size_t>(thread)], MPI_COMM_WORLD, group, thread); });
  for (std::thread& worker : workers)
    worker.join();
  for (MPI_Comm& comm : own)
    MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  MPI_Finalize();
  return 0;
}
