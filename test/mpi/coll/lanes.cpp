/* Nonblocking and persistent collectives in shared memory: more under way than there are lines and slots,
 * more persistent ones than have lines of their own, and in the order that each rank likes. ranks: 2 3 8 */
#include <numeric>
#include <vector>

#include "../check.h"

static int rank, size;

static int sum_of(int plus) {
  return size * (size - 1) / 2 + size * plus;
}

/* Ranks begin to wait at different ends. */
static std::vector<int> own_order(int n) {
  std::vector<int> order((size_t)n);
  std::iota(order.begin(), order.end(), 0);
  for (int i = 0; i < n; ++i)
    std::swap(order[(size_t)i], order[(size_t)((i * 7 + rank * 13) % n)]);
  return order;
}

/* `count` ints each: what fits into a line, a short slot and a long one, and what is fetched. */
static void many_under_way(MPI_Comm comm, int n, int count) {
  std::vector<std::vector<int>> in((size_t)n), out((size_t)n);
  std::vector<MPI_Request> requests((size_t)n);
  for (int i = 0; i < n; ++i) {
    in[(size_t)i].assign((size_t)count, rank + i);
    out[(size_t)i].assign((size_t)count, -1);
    void *send = in[(size_t)i].data(), *receive = out[(size_t)i].data();
    MPI_Request* request = &requests[(size_t)i];
    switch (i % 4) {
      case 0:
        CHECK_MPI(MPI_Iallreduce(send, receive, count, MPI_INT, MPI_SUM, comm, request));
        break;
      case 1:
        CHECK_MPI(MPI_Ibcast(send, count, MPI_INT, i % size, comm, request));
        break;
      case 2:
        CHECK_MPI(MPI_Ireduce(send, receive, count, MPI_INT, MPI_SUM, i % size, comm, request));
        break;
      default:
        CHECK_MPI(MPI_Ibarrier(comm, request));
    }
    if (i % 50 == 49) {
      int sum = 0;
      CHECK_MPI(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
      CHECK_EQUAL(sum, sum_of(0));
    }
  }
  for (const int i : own_order(n)) {
    CHECK_MPI(MPI_Wait(&requests[(size_t)i], MPI_STATUS_IGNORE));
    const std::vector<int>& result = i % 4 == 1 ? in[(size_t)i] : out[(size_t)i];
    const bool mine = i % 4 < 2 || (i % 4 == 2 && rank == i % size);
    const int wanted = !mine ? result[0] : i % 4 == 1 ? i % size + i : sum_of(i);
    CHECK_EQUAL(result.front(), wanted);
    CHECK(result == std::vector<int>((size_t)count, wanted));
  }
}

/* Nothing is known of who reads and writes whose memory before the first that wants to. */
static void first_of_a_communicator(int count) {
  MPI_Comm comm;
  CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  many_under_way(comm, 6, count);
  CHECK_MPI(MPI_Comm_free(&comm));
}

/* Started in an order of each rank's own, over and over, beside nonblocking ones. */
static void many_persistent(MPI_Comm comm, int n, int count) {
  std::vector<std::vector<int>> in((size_t)n), out((size_t)n);
  std::vector<MPI_Request> requests((size_t)n);
  for (int i = 0; i < n; ++i) {
    in[(size_t)i].resize((size_t)count);
    out[(size_t)i].resize((size_t)count);
    CHECK_MPI(i % 2 ? MPI_Bcast_init(in[(size_t)i].data(), count, MPI_INT, i % size, comm, MPI_INFO_NULL,
                                     &requests[(size_t)i])
                    : MPI_Allreduce_init(in[(size_t)i].data(), out[(size_t)i].data(), count, MPI_INT, MPI_SUM,
                                         comm, MPI_INFO_NULL, &requests[(size_t)i]));
  }
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < n; ++i)
      in[(size_t)i].assign((size_t)count, rank + i + round);
    for (const int i : own_order(n))
      CHECK_MPI(MPI_Start(&requests[(size_t)i]));
    int sum = -1;
    MPI_Request beside;
    CHECK_MPI(MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, &beside));
    CHECK_MPI(MPI_Waitall(n, requests.data(), MPI_STATUSES_IGNORE));
    CHECK_MPI(MPI_Wait(&beside, MPI_STATUS_IGNORE));
    CHECK_EQUAL(sum, sum_of(0));
    for (int i = 0; i < n; ++i) {
      const int wanted = i % 2 ? i % size + i + round : sum_of(i + round);
      const std::vector<int>& result = i % 2 ? in[(size_t)i] : out[(size_t)i];
      CHECK(result == std::vector<int>((size_t)count, wanted));
    }
  }
  for (MPI_Request& request : requests)
    CHECK_MPI(MPI_Request_free(&request));
}

/* A root that does not wait for the others is never ahead of its readers. */
static void root_runs_ahead(MPI_Comm comm) {
  constexpr int n = 1000;
  for (int i = 0; i < n; ++i) {
    int word = rank == 0 ? i : -1;
    MPI_Request request;
    CHECK_MPI(MPI_Ibcast(&word, 1, MPI_INT, 0, comm, &request));
    CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQUAL(word, i);
  }
}

/* A communicator lives as long as what is under way on it, and its memory is given back. */
static void communicator_freed() {
  for (int i = 0; i < 30; ++i) {
    MPI_Comm comm;
    MPI_Request request;
    int sum = -1;
    CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_MPI(MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, &request));
    CHECK_MPI(MPI_Comm_free(&comm));
    CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQUAL(sum, sum_of(0));
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (const int count : {1, 12, 13, 256, 257, 4096, 16384, 40000})
    first_of_a_communicator(count);
  many_under_way(MPI_COMM_WORLD, 300, 2);
  many_under_way(MPI_COMM_WORLD, 60, 1000);
  many_under_way(MPI_COMM_WORLD, 150, 20000);
  many_persistent(MPI_COMM_WORLD, 40, 3);
  many_persistent(MPI_COMM_WORLD, 6, 300);
  many_persistent(MPI_COMM_WORLD, 6, 20000);
  root_runs_ahead(MPI_COMM_WORLD);
  communicator_freed();
  MPI_Finalize();
  return 0;
}
