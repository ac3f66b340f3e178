/* Collectives of the sizes at which a communicator learns which way is the fastest, often enough that each
 * way has its turns: from changing roots, on several communicators, by ranks that come late now and then.
 * What arrives is right, and a sum has the same bits at each call. live plans: also where ranks share cores
 */
#include <cmath>
#include <numeric>
#include <vector>

#include "../check.h"

static int rank, size;

static std::vector<int> ints(int from, int call, int count) {
  std::vector<int> data(count);
  std::iota(data.begin(), data.end(), from * 100'003 + call);
  return data;
}

/* Late now and then, and never all at once. */
static void come_late(int call) {
  if ((call * 7 + rank) % 13 == 0) usleep(200);
}

static void moves(MPI_Comm comm, int call, int count) {
  int me, n;
  CHECK_MPI(MPI_Comm_rank(comm, &me));
  CHECK_MPI(MPI_Comm_size(comm, &n));
  const int root = call % n;
  const std::vector<int> from_root = ints(root, call, count);
  std::vector<int> buffer = me == root ? from_root : std::vector<int>(count, -1);
  CHECK_MPI(MPI_Bcast(buffer.data(), count, MPI_INT, root, comm));
  CHECK(buffer == from_root);
  come_late(call);

  const std::vector<int> mine = ints(me, call, count);
  std::vector<int> wanted;
  for (int i = 0; i < n; ++i) {
    const std::vector<int> theirs = ints(i, call, count);
    wanted.insert(wanted.end(), theirs.begin(), theirs.end());
  }
  std::vector<int> all(wanted.size(), -1);
  CHECK_MPI(MPI_Allgather(mine.data(), count, MPI_INT, all.data(), count, MPI_INT, comm));
  CHECK(all == wanted);
  std::vector<int> gathered(me == root ? wanted.size() : 0, -1);
  CHECK_MPI(MPI_Gather(mine.data(), count, MPI_INT, gathered.data(), count, MPI_INT, root, comm));
  CHECK(me != root || gathered == wanted);
  come_late(call + 5);
  std::vector<int> back(count, -1);
  CHECK_MPI(MPI_Scatter(gathered.data(), count, MPI_INT, back.data(), count, MPI_INT, root, comm));
  CHECK(back == mine);

  /* Block `i` of rank `j` goes to block `j` of rank `i`. */
  for (int i = 0; i < n; ++i)
    for (int at = 0; at < count; ++at)
      all[i * count + at] = me * 1000 + i + at;
  CHECK_MPI(MPI_Alltoall(MPI_IN_PLACE, count, MPI_INT, all.data(), count, MPI_INT, comm));
  for (int i = 0; i < n; ++i)
    for (int at = 0; at < count; ++at)
      if (all[i * count + at] != i * 1000 + me + at) CHECK_EQUAL(all[i * count + at], i * 1000 + me + at);
}

/* Sums of numbers far apart depend on the order in which they are added. */
class Sums {
 public:
  explicit Sums(int count) : mine_(count), sum_(count), at_root_(count) {
    for (int at = 0; at < count; ++at)
      mine_[at] = std::ldexp(1 + rank + at % 17, (rank * 29 + at * 13) % 80) * (at % 3 == rank % 3 ? -1 : 1);
  }
  void check(int call) {
    const int count = static_cast<int>(mine_.size());
    const int root = call % size;
    come_late(call);
    CHECK_MPI(MPI_Allreduce(mine_.data(), sum_.data(), count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    if (call == 0) first_ = sum_;
    CHECK_EQUAL(memcmp(sum_.data(), first_.data(), sizeof(double) * count), 0);
    CHECK_MPI(MPI_Reduce(mine_.data(), at_root_.data(), count, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD));
    if (call < size && rank == root) first_at_root_ = at_root_;
    if (rank == root) CHECK_EQUAL(memcmp(at_root_.data(), first_at_root_.data(), sizeof(double) * count), 0);
  }

 private:
  std::vector<double> mine_, sum_, first_, at_root_, first_at_root_;
};

int main(int argc, char** argv) {
  CHECK_MPI(MPI_Init(&argc, &argv));
  CHECK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  CHECK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  MPI_Comm reversed, twin;
  CHECK_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed));
  CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
  Sums short_sums(700), long_sums(12'000);
  for (int call = 0; call < 160; ++call) {
    moves(MPI_COMM_WORLD, call, 900);
    moves(reversed, call, 5000);
    if (call % 2 == 0) moves(twin, call, 900);
    short_sums.check(call);
    long_sums.check(call);
  }
  CHECK_MPI(MPI_Comm_free(&reversed));
  CHECK_MPI(MPI_Comm_free(&twin));
  CHECK_MPI(MPI_Finalize());
}
