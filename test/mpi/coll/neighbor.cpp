/* The collectives among neighbours in all forms: grids with and without ends, of one and two places a
 * dimension, where both neighbours are the same process; graphs with edges that repeat, one-way edges, edges
 * to itself and none. */
#include <vector>

#include "../check.h"

enum class Form { blocking, nonblocking, persistent };

static int rank, size;

/* Runs `start(request)`, or what stands for it, to its end; a persistent one twice. */
template <class Blocking, class Nonblocking, class Persistent>
static void run(Form form, Blocking blocking, Nonblocking nonblocking, Persistent persistent) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (form == Form::blocking) {
    CHECK_MPI(blocking());
    return;
  }
  if (form == Form::nonblocking) {
    CHECK_MPI(nonblocking(&request));
    CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    return;
  }
  CHECK_MPI(persistent(&request));
  for (int turn = 0; turn < 2; ++turn) {
    CHECK_MPI(MPI_Start(&request));
    CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
  CHECK_MPI(MPI_Request_free(&request));
}
#define RUN(form, Name, name, ...)                                 \
  run(                                                             \
      form, [&] { return MPI_##Name(__VA_ARGS__); },               \
      [&](MPI_Request* r) { return MPI_I##name(__VA_ARGS__, r); }, \
      [&](MPI_Request* r) { return MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, r); })
#define RUN_C(form, Name, name, ...)                                   \
  run(                                                                 \
      form, [&] { return MPI_##Name##_c(__VA_ARGS__); },               \
      [&](MPI_Request* r) { return MPI_I##name##_c(__VA_ARGS__, r); }, \
      [&](MPI_Request* r) { return MPI_##Name##_init_c(__VA_ARGS__, MPI_INFO_NULL, r); })

/* Who a process receives from, and what it expects: `from[i]`, and which of the sender's blocks that is. */
struct Neighbors {
  std::vector<int> from, to;
  std::vector<int> block; /* of the sender */
};

static int value(int sender, int block, int k) {
  return sender * 10000 + block * 100 + k % 97;
}

static void exchange(MPI_Comm comm, const Neighbors& n, Form form, int count) {
  const int ins = (int)n.from.size(), outs = (int)n.to.size();
  std::vector<int> out((size_t)(outs * count + 1)), in((size_t)(ins * count + 1), -1);
  const auto expect = [&](bool same_for_all, int times) {
    for (int i = 0; i < ins; ++i)
      for (int k = 0; k < count; ++k) {
        const int got = in[(size_t)(i * count + k)];
        const int from = n.from[(size_t)i];
        if (from == MPI_PROC_NULL || k >= times)
          CHECK_EQUAL(got, -1);
        else
          CHECK_EQUAL(got, value(from, same_for_all ? 0 : n.block[(size_t)i], k));
      }
    in.assign(in.size(), -1);
  };
  for (int b = 0; b < outs; ++b)
    for (int k = 0; k < count; ++k)
      out[(size_t)(b * count + k)] = value(rank, b, k);
  std::vector<int> mine((size_t)count + 1);
  for (int k = 0; k < count; ++k)
    mine[(size_t)k] = value(rank, 0, k);

  RUN(form, Neighbor_alltoall, neighbor_alltoall, out.data(), count, MPI_INT, in.data(), count, MPI_INT,
      comm);
  expect(false, count);
  RUN_C(form, Neighbor_alltoall, neighbor_alltoall, out.data(), count, MPI_INT, in.data(), count, MPI_INT,
        comm);
  expect(false, count);
  RUN(form, Neighbor_allgather, neighbor_allgather, mine.data(), count, MPI_INT, in.data(), count, MPI_INT,
      comm);
  expect(true, count);
  RUN_C(form, Neighbor_allgather, neighbor_allgather, mine.data(), count, MPI_INT, in.data(), count, MPI_INT,
        comm);
  expect(true, count);

  std::vector<int> in_counts((size_t)ins, count), in_places((size_t)ins), out_counts((size_t)outs, count),
      out_places((size_t)outs);
  std::vector<MPI_Count> big_in((size_t)ins, count), big_out((size_t)outs, count);
  std::vector<MPI_Aint> in_bytes((size_t)ins), out_bytes((size_t)outs), in_far((size_t)ins),
      out_far((size_t)outs);
  std::vector<MPI_Datatype> in_types((size_t)ins, MPI_INT), out_types((size_t)outs, MPI_INT);
  for (int i = 0; i < ins; ++i) {
    in_places[(size_t)i] = i * count;
    in_far[(size_t)i] = i * count;
    in_bytes[(size_t)i] = (MPI_Aint)sizeof(int) * i * count;
  }
  for (int i = 0; i < outs; ++i) {
    out_places[(size_t)i] = i * count;
    out_far[(size_t)i] = i * count;
    out_bytes[(size_t)i] = (MPI_Aint)sizeof(int) * i * count;
  }
  RUN(form, Neighbor_allgatherv, neighbor_allgatherv, mine.data(), count, MPI_INT, in.data(),
      in_counts.data(), in_places.data(), MPI_INT, comm);
  expect(true, count);
  RUN_C(form, Neighbor_allgatherv, neighbor_allgatherv, mine.data(), count, MPI_INT, in.data(), big_in.data(),
        in_far.data(), MPI_INT, comm);
  expect(true, count);
  RUN(form, Neighbor_alltoallv, neighbor_alltoallv, out.data(), out_counts.data(), out_places.data(), MPI_INT,
      in.data(), in_counts.data(), in_places.data(), MPI_INT, comm);
  expect(false, count);
  RUN_C(form, Neighbor_alltoallv, neighbor_alltoallv, out.data(), big_out.data(), out_far.data(), MPI_INT,
        in.data(), big_in.data(), in_far.data(), MPI_INT, comm);
  expect(false, count);
  RUN(form, Neighbor_alltoallw, neighbor_alltoallw, out.data(), out_counts.data(), out_bytes.data(),
      out_types.data(), in.data(), in_counts.data(), in_bytes.data(), in_types.data(), comm);
  expect(false, count);
  RUN_C(form, Neighbor_alltoallw, neighbor_alltoallw, out.data(), big_out.data(), out_bytes.data(),
        out_types.data(), in.data(), big_in.data(), in_bytes.data(), in_types.data(), comm);
  expect(false, count);
}

static void all_forms(MPI_Comm comm, const Neighbors& n) {
  MPI_Barrier(comm);
  for (const Form form : {Form::blocking, Form::nonblocking, Form::persistent})
    for (const int count : {0, 1, 5, 300, 20000})
      exchange(comm, n, form, count);
}

static void grid(int dimensions, const int* sizes, const int* periods) {
  MPI_Comm comm;
  MPI_Cart_create(MPI_COMM_WORLD, dimensions, sizes, periods, 0, &comm);
  if (comm == MPI_COMM_NULL) return;
  Neighbors n;
  for (int d = 0; d < dimensions; ++d) {
    int below, above;
    MPI_Cart_shift(comm, d, 1, &below, &above);
    n.from.insert(n.from.end(), {below, above});
    /* What comes from below has left upwards. */
    n.block.insert(n.block.end(), {2 * d + 1, 2 * d});
  }
  n.to = n.from;
  all_forms(comm, n);
  MPI_Comm_free(&comm);
}

static void grids() {
  const int closed[] = {1, 1, 1}, open[] = {0, 0, 0}, mixed[] = {1, 0, 1};
  for (const int* periods : {closed, open, mixed}) {
    const int line[] = {size}, flat[] = {size, 1};
    grid(1, line, periods);
    grid(2, flat, periods);
    if (size >= 2) {
      const int pair[] = {2};
      grid(1, pair, periods);
    }
    int balanced[3] = {0, 0, 0};
    MPI_Dims_create(size, 3, balanced);
    grid(3, balanced, periods);
  }
}

/* Each process sends to the two above it, twice to the first, and to itself; the last one sends nothing. */
static void distributed_graph() {
  const auto targets = [](int r) {
    std::vector<int> to;
    if (r != size - 1) to = {(r + 1) % size, (r + 2) % size, (r + 1) % size, r};
    return to;
  };
  Neighbors n;
  n.to = targets(rank);
  for (int r = 0; r < size; ++r) {
    const std::vector<int> to = targets(r);
    for (int b = 0; b < (int)to.size(); ++b)
      if (to[(size_t)b] == rank) {
        n.from.push_back(r);
        n.block.push_back(b);
      }
  }
  MPI_Comm comm, copy;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, (int)n.from.size(), n.from.data(), MPI_UNWEIGHTED,
                                 (int)n.to.size(), n.to.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
  all_forms(comm, n);
  MPI_Comm_dup(comm, &copy);
  MPI_Comm_free(&comm);
  all_forms(copy, n);
  MPI_Comm_free(&copy);
}

/* A star: all know rank 0. */
static void graph() {
  std::vector<int> index, edges;
  for (int i = 1; i < size; ++i)
    edges.push_back(i);
  index.push_back((int)edges.size());
  for (int i = 1; i < size; ++i) {
    edges.push_back(0);
    index.push_back((int)edges.size());
  }
  MPI_Comm comm;
  MPI_Graph_create(MPI_COMM_WORLD, size, index.data(), edges.data(), 0, &comm);
  Neighbors n;
  if (rank == 0)
    for (int i = 1; i < size; ++i) {
      n.from.push_back(i);
      n.block.push_back(0);
    }
  else
    n = {{0}, {0}, {rank - 1}};
  n.to = n.from;
  all_forms(comm, n);
  MPI_Comm_free(&comm);
}

static void many_under_way() {
  constexpr int n = 50;
  MPI_Comm comm;
  const int sizes[] = {size}, periods[] = {1};
  MPI_Cart_create(MPI_COMM_WORLD, 1, sizes, periods, 0, &comm);
  MPI_Request requests[n];
  int in[n][2], out[n][2];
  for (int i = 0; i < n; ++i) {
    out[i][0] = value(rank, 0, i);
    out[i][1] = value(rank, 1, i);
    CHECK_MPI(MPI_Ineighbor_alltoall(out[i], 1, MPI_INT, in[i], 1, MPI_INT, comm, &requests[i]));
  }
  for (int i = n; i-- > 0;) {
    CHECK_MPI(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    CHECK_EQUAL(in[i][0], value((rank + size - 1) % size, 1, i));
    CHECK_EQUAL(in[i][1], value((rank + 1) % size, 0, i));
  }
  MPI_Comm_free(&comm);
}

static void errors() {
  int a[64] = {0}, b[64];
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  CHECK_ERROR(MPI_Neighbor_alltoall(a, 1, MPI_INT, b, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TOPOLOGY,
              "topology");
  CHECK_ERROR(MPI_Ineighbor_alltoall(a, 1, MPI_INT, b, 1, MPI_INT, MPI_COMM_WORLD, &request),
              MPI_ERR_TOPOLOGY, "topology");
  CHECK(request == MPI_REQUEST_NULL);
  MPI_Comm comm;
  const int sizes[] = {size}, periods[] = {1};
  MPI_Cart_create(MPI_COMM_WORLD, 1, sizes, periods, 0, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  CHECK_ERROR(MPI_Neighbor_alltoall(a, -1, MPI_INT, b, 1, MPI_INT, comm), MPI_ERR_COUNT, "sendcount");
  CHECK_ERROR(MPI_Neighbor_allgather(a, 1, MPI_DATATYPE_NULL, b, 1, MPI_INT, comm), MPI_ERR_TYPE, "sendtype");
  CHECK_ERROR(MPI_Neighbor_allgather(MPI_IN_PLACE, 1, MPI_INT, b, 1, MPI_INT, comm), MPI_ERR_BUFFER,
              "sendbuf");
  CHECK_ERROR(MPI_Ineighbor_alltoallv(a, nullptr, a, MPI_INT, b, a, a, MPI_INT, comm, &request), MPI_ERR_ARG,
              "sendcounts");
  CHECK_ERROR(MPI_Neighbor_alltoall_init(a, 1, MPI_INT, b, 1, MPI_INT, comm, MPI_INFO_NULL, nullptr),
              MPI_ERR_ARG, "request");
  MPI_Comm_free(&comm);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  grids();
  distributed_graph();
  graph();
  many_under_way();
  errors();
  MPI_Finalize();
  return 0;
}
