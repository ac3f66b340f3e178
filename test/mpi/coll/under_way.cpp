/* Many collectives under way: on one communicator, completed in any order; on several; communicators,
 * datatypes and operations freed meanwhile; nonblocking beside blocking and persistent ones, and beside
 * messages. */
#include <unistd.h>

#include <vector>

#include "../check.h"

static int rank, size;

static int sum_of_ranks(int plus) {
  return size * (size - 1) / 2 + size * plus;
}

/* A hundred of all kinds, completed from the last one to the first. */
static void many_in_reverse() {
  constexpr int n = 100;
  std::vector<MPI_Request> requests(n);
  std::vector<int> in(n), out(n, -1);
  for (int i = 0; i < n; ++i) {
    in[i] = rank + i;
    if (i % 4 == 0)
      CHECK_MPI(MPI_Ibarrier(MPI_COMM_WORLD, &requests[i]));
    else if (i % 4 == 1)
      CHECK_MPI(MPI_Ibcast(&in[i], 1, MPI_INT, i % size, MPI_COMM_WORLD, &requests[i]));
    else if (i % 4 == 2)
      CHECK_MPI(MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]));
    else
      CHECK_MPI(MPI_Iscan(&in[i], &out[i], 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[i]));
  }
  for (int i = n; i-- > 0;) {
    CHECK_MPI(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    CHECK(requests[i] == MPI_REQUEST_NULL);
    if (i % 4 == 1) CHECK_EQUAL(in[i], i % size + i);
    if (i % 4 == 2) CHECK_EQUAL(out[i], sum_of_ranks(i));
    if (i % 4 == 3) CHECK_EQUAL(out[i], rank + i);
  }
}

/* Each rank completes them in an order of its own, by all functions that complete. */
static void in_any_order() {
  constexpr int n = 40, count = 3000;
  std::vector<MPI_Request> requests(n);
  std::vector<std::vector<int>> in(n), out(n);
  for (int i = 0; i < n; ++i) {
    in[i].assign(count, rank + i);
    out[i].assign(count, -1);
    CHECK_MPI(MPI_Iallreduce(in[i].data(), out[i].data(), i % 2 ? count : 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                             &requests[i]));
  }
  int left = n;
  while (left > 0) {
    int index = MPI_UNDEFINED, flag = 0, some = 0, indices[n];
    MPI_Status status, statuses[n];
    if ((left + rank) % 3 == 0) {
      CHECK_MPI(MPI_Waitany(n, requests.data(), &index, &status));
      CHECK(index != MPI_UNDEFINED);
      --left;
    } else if ((left + rank) % 3 == 1) {
      CHECK_MPI(MPI_Testsome(n, requests.data(), &some, indices, statuses));
      CHECK(some != MPI_UNDEFINED);
      left -= some;
    } else {
      CHECK_MPI(MPI_Testany(n, requests.data(), &index, &flag, &status));
      if (flag) --left;
    }
  }
  for (int i = 0; i < n; ++i) {
    CHECK(requests[i] == MPI_REQUEST_NULL);
    for (int k = 0; k < (i % 2 ? count : 1); ++k)
      CHECK_EQUAL(out[i][k], sum_of_ranks(i));
  }
}

/* On four communicators, begun in another order at each rank, which is allowed between communicators. */
static void on_several_communicators() {
  constexpr int n = 4, each = 5;
  MPI_Comm comms[n];
  MPI_Request requests[n * each];
  int in[n * each], out[n * each];
  for (auto& comm : comms)
    CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  for (int turn = 0; turn < each; ++turn)
    for (int k = 0; k < n; ++k) {
      const int c = (k + rank) % n, i = c * each + turn;
      in[i] = rank + i;
      CHECK_MPI(MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_SUM, comms[c], &requests[i]));
    }
  /* They live until what is under way on them is done. */
  for (auto& comm : comms)
    CHECK_MPI(MPI_Comm_free(&comm));
  CHECK_MPI(MPI_Waitall(n * each, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < n * each; ++i)
    CHECK_EQUAL(out[i], sum_of_ranks(i));
}

static void add(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < 2 * *count; ++i)
    static_cast<int*>(inout)[i] += static_cast<int*>(in)[i];
}

/* The datatype and the operation are freed as soon as it has begun. */
static void freed_meanwhile() {
  MPI_Datatype pair;
  MPI_Op op;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  MPI_Op_create(add, 0, &op);
  std::vector<int> in(2000, rank), out(2000, -1), all((size_t)size * 2, -1), mine(2, rank);
  MPI_Request requests[2];
  CHECK_MPI(MPI_Iallreduce(in.data(), out.data(), 1000, pair, op, MPI_COMM_WORLD, &requests[0]));
  CHECK_MPI(MPI_Iallgather(mine.data(), 1, pair, all.data(), 1, pair, MPI_COMM_WORLD, &requests[1]));
  MPI_Type_free(&pair);
  MPI_Op_free(&op);
  CHECK_MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  for (const int value : out)
    CHECK_EQUAL(value, sum_of_ranks(0));
  for (int i = 0; i < 2 * size; ++i)
    CHECK_EQUAL(all[(size_t)i], i / 2);
}

/* Counts and displacements are given up as soon as it has begun: mpi4py does so, though the standard forbids
 * it. The last rank is late, so that all others have begun. */
static void lists_given_up() {
  const auto n = (size_t)size;
  MPI_Comm ring;
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  CHECK_MPI(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right,
                                           MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &ring));
  for (const bool persistent : {false, true}) {
    std::vector<int> counts(n), displacements(n), one(1, 2), at(1, 1);
    std::vector<MPI_Count> long_counts(n);
    std::vector<MPI_Aint> long_displacements(n);
    for (int i = 0; i < size; ++i) {
      counts[i] = long_counts[i] = i % 3 + 1;
      displacements[i] = 4 * i;
      long_displacements[i] = 4 * i;
    }
    const std::vector<int> in(4 * n, rank);
    std::vector<int> sums(4 * n, -1), gathered(4 * n, -1), moved(4 * n, -1), from_left(4, -1);
    MPI_Request requests[4];
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) usleep(20000);
    if (persistent) {
      CHECK_MPI(MPI_Reduce_scatter_init(in.data(), sums.data(), counts.data(), MPI_INT, MPI_SUM,
                                        MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
      CHECK_MPI(MPI_Allgatherv_init(in.data(), counts[rank], MPI_INT, gathered.data(), counts.data(),
                                    displacements.data(), MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                                    &requests[1]));
      CHECK_MPI(MPI_Alltoallv_init_c(in.data(), long_counts.data(), long_displacements.data(), MPI_INT,
                                     moved.data(), std::vector<MPI_Count>(n, long_counts[rank]).data(),
                                     long_displacements.data(), MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                                     &requests[2]));
      CHECK_MPI(MPI_Neighbor_alltoallv_init(in.data(), one.data(), at.data(), MPI_INT, from_left.data(),
                                            one.data(), at.data(), MPI_INT, ring, MPI_INFO_NULL,
                                            &requests[3]));
    } else {
      CHECK_MPI(MPI_Ireduce_scatter(in.data(), sums.data(), counts.data(), MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                    &requests[0]));
      CHECK_MPI(MPI_Iallgatherv(in.data(), counts[rank], MPI_INT, gathered.data(), counts.data(),
                                displacements.data(), MPI_INT, MPI_COMM_WORLD, &requests[1]));
      CHECK_MPI(MPI_Ialltoallv_c(in.data(), long_counts.data(), long_displacements.data(), MPI_INT,
                                 moved.data(), std::vector<MPI_Count>(n, long_counts[rank]).data(),
                                 long_displacements.data(), MPI_INT, MPI_COMM_WORLD, &requests[2]));
      CHECK_MPI(MPI_Ineighbor_alltoallv(in.data(), one.data(), at.data(), MPI_INT, from_left.data(),
                                        one.data(), at.data(), MPI_INT, ring, &requests[3]));
    }
    const int mine = counts[rank];
    counts.assign(n, 1000000000);
    displacements.assign(n, 1000000000);
    long_counts.assign(n, 1000000000);
    long_displacements.assign(n, 1000000000);
    one[0] = at[0] = 1000000000;
    if (persistent) CHECK_MPI(MPI_Startall(4, requests));
    CHECK_MPI(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < 4; ++k) {
      CHECK_EQUAL(sums[k], k < mine ? sum_of_ranks(0) : -1);
      CHECK_EQUAL(from_left[k], k == 1 || k == 2 ? left : -1);
      for (int i = 0; i < size; ++i) {
        CHECK_EQUAL(gathered[4 * i + k], k < i % 3 + 1 ? i : -1);
        CHECK_EQUAL(moved[4 * i + k], k < mine ? i : -1);
      }
    }
    if (persistent)
      for (auto& request : requests)
        CHECK_MPI(MPI_Request_free(&request));
  }
  MPI_Comm_free(&ring);
}

/* Blocking collectives and messages go by one that others have not begun. */
static void beside_others() {
  MPI_Request request, message[2];
  int in = rank, out = -1, from = -1, word = rank;
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  CHECK_MPI(MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
  for (int i = 0; i < 10; ++i) {
    int all = 0, one = 1;
    CHECK_MPI(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQUAL(all, size);
    CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  }
  CHECK_MPI(MPI_Irecv(&from, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &message[0]));
  CHECK_MPI(MPI_Isend(&word, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &message[1]));
  MPI_Request all[3] = {message[0], request, message[1]};
  CHECK_MPI(MPI_Waitall(3, all, MPI_STATUSES_IGNORE));
  CHECK_EQUAL(from, left);
  CHECK_EQUAL(out, sum_of_ranks(0));
}

/* Nobody waits for one who is late to begin. */
static void begins_without_the_others() {
  MPI_Comm comm;
  MPI_Request request;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm); /* its first collective is a nonblocking one */
  int word = rank == 0 ? 42 : -1, token = 0;
  if (rank != size - 1) CHECK_MPI(MPI_Ibcast(&word, 1, MPI_INT, 0, comm, &request));
  /* The last one begins when all others have. */
  if (rank != size - 1)
    CHECK_MPI(MPI_Send(&token, 1, MPI_INT, size - 1, 3, MPI_COMM_WORLD));
  else
    for (int i = 0; i < size - 1; ++i)
      CHECK_MPI(MPI_Recv(&token, 1, MPI_INT, i, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  if (rank == size - 1) CHECK_MPI(MPI_Ibcast(&word, 1, MPI_INT, 0, comm, &request));
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK_EQUAL(word, 42);
  MPI_Comm_free(&comm);
}

/* Persistent ones, begun again and again, in an order of its own at each rank. */
static void persistent() {
  constexpr int n = 6;
  MPI_Request requests[n];
  std::vector<int> in(n), out(n);
  for (int i = 0; i < n; ++i)
    CHECK_MPI(MPI_Allreduce_init(&in[i], &out[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                 &requests[i]));
  for (int turn = 0; turn < 20; ++turn) {
    for (int k = 0; k < n; ++k) {
      const int i = (k * (turn % 2 ? 1 : n - 1) + rank) % n;
      in[i] = rank + i + turn;
      out[i] = -1;
      CHECK_MPI(MPI_Start(&requests[i]));
    }
    CHECK_MPI(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < n; ++i) {
      CHECK(requests[i] != MPI_REQUEST_NULL);
      CHECK_EQUAL(out[i], sum_of_ranks(i + turn));
    }
  }
  CHECK_MPI(MPI_Startall(n, requests));
  CHECK_MPI(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
  for (auto& request : requests)
    CHECK_MPI(MPI_Request_free(&request));
}

/* A status is empty, also that of MPI_Request_get_status, which ends nothing. */
static void statuses() {
  MPI_Request request;
  MPI_Status status;
  int flag = 0, count = -1;
  CHECK_MPI(MPI_Ibarrier(MPI_COMM_WORLD, &request));
  while (!flag)
    CHECK_MPI(MPI_Request_get_status(request, &flag, &status));
  CHECK(request != MPI_REQUEST_NULL);
  CHECK_MPI(MPI_Request_get_status(request, &flag, &status));
  CHECK(flag);
  status.MPI_SOURCE = 77;
  CHECK_MPI(MPI_Wait(&request, &status));
  CHECK_EQUAL(status.MPI_SOURCE, MPI_ANY_SOURCE);
  CHECK_EQUAL(status.MPI_TAG, MPI_ANY_TAG);
  CHECK_MPI(MPI_Get_count(&status, MPI_INT, &count));
  CHECK_EQUAL(count, 0);
  CHECK_MPI(MPI_Test_cancelled(&status, &flag));
  CHECK(!flag);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  begins_without_the_others();
  many_in_reverse();
  in_any_order();
  on_several_communicators();
  freed_meanwhile();
  lists_given_up();
  beside_others();
  persistent();
  statuses();
  MPI_Finalize();
  return 0;
}
