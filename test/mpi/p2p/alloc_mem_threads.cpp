// Threads of each rank that exchange messages out of memory of MPI_Alloc_mem, which they make and free
// meanwhile. ranks: 2 3
#include <thread>
#include <vector>

#include "../check.h"

namespace {

constexpr int threads = 4;
constexpr int rounds = 60;

int at(int rank, int thread, int round, int i) {
  return ((rank * threads + thread) * rounds + round) * 31 + i;
}

void exchange(int thread) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int right = (rank + 1) % size;
  const int left = (rank + size - 1) % size;
  std::vector<int> in(100'000);
  for (int round = 0; round < rounds; ++round) {
    const int count = 8'000 + round % 7 * 10'000;
    int* out = nullptr;
    CHECK_MPI(
        MPI_Alloc_mem(static_cast<MPI_Aint>(sizeof(int)) * count, MPI_INFO_NULL, static_cast<void*>(&out)));
    for (int i = 0; i < count; ++i)
      out[i] = at(rank, thread, round, i);
    CHECK_MPI(MPI_Sendrecv(out, count, MPI_INT, right, thread, in.data(), count, MPI_INT, left, thread,
                           MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    long wrong = 0;
    for (int i = 0; i < count; ++i)
      wrong += in[static_cast<std::size_t>(i)] != at(left, thread, round, i);
    CHECK_EQUAL(wrong, 0);
    CHECK_MPI(MPI_Free_mem(out));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK_EQUAL(provided, MPI_THREAD_MULTIPLE);
  std::vector<std::thread> all;
  all.reserve(threads);
  for (int thread = 0; thread < threads; ++thread)
    all.emplace_back(exchange, thread);
  for (std::thread& each : all)
    each.join();
  MPI_Finalize();
  return 0;
}
