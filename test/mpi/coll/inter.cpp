/* Collectives of intercommunicators: data goes from each group to the other. Groups of different sizes.
 * ranks: 2 3 4 7 */
#include "data.h"

static int rank, size, others;
static bool low; /* in the group that starts at rank 0 of MPI_COMM_WORLD */
static MPI_Comm inter;

/* Numbers a process across both groups. */
static int number(bool of_low, int r) {
  return of_low ? r : 100 + r;
}
static int me() {
  return number(low, rank);
}
static int other(int r) {
  return number(!low, r);
}
static const std::vector<int> sizes = {0, 1, 13, 700, 5000, 40000};

/* Calls `test(root)` with the root argument of this process, for the first and last process of each group as
 * the root; `root_here` and `sends` say what this process does. */
template <class Test>
static void for_roots(Test test) {
  for (const bool root_low : {true, false}) {
    const int candidates = low == root_low ? size : others;
    for (const int root : {0, candidates - 1}) {
      if (low != root_low)
        test(root, number(root_low, root));
      else
        test(rank == root ? MPI_ROOT : MPI_PROC_NULL, number(root_low, root));
    }
  }
}

static void bcast(const Shape& shape, int count) {
  for_roots([&](int root, int source) {
    Buffer buffer(shape, count);
    if (root == MPI_ROOT) buffer.fill(0, count, source, 1);
    CHECK_MPI(MPI_Bcast(buffer.data(), count, shape.type, root, inter));
    if (root != MPI_PROC_NULL) buffer.expect(0, count, source, 1);
    buffer.expect_rest_untouched();
  });
}

static void gather_scatter(const Shape& shape, int count) {
  for_roots([&](int root, int at) {
    Buffer mine(shape, count), all(shape, count * others);
    mine.fill(0, count, me(), at);
    CHECK_MPI(MPI_Gather(mine.data(), count, shape.type, all.data(), count, shape.type, root, inter));
    for (int i = 0; root == MPI_ROOT && i < others; ++i)
      all.expect(i * count, count, other(i), at);
    all.expect_rest_untouched();

    for (int i = 0; i < others; ++i)
      all.fill(i * count, count, at, other(i));
    Buffer piece(shape, count);
    CHECK_MPI(MPI_Scatter(all.data(), count, shape.type, piece.data(), count, shape.type, root, inter));
    if (root >= 0) piece.expect(0, count, at, me());
    piece.expect_rest_untouched();

    std::vector<int> counts, places;
    int total = 0;
    for (int i = 0; i < others; ++i) {
      counts.push_back(i % 2 ? count : count / 2);
      places.push_back(total);
      total += counts.back() + 1;
    }
    const int my_count = rank % 2 ? count : count / 2;
    Buffer spread(shape, total);
    mine.fill(0, my_count, me(), at);
    CHECK_MPI(MPI_Gatherv(mine.data(), my_count, shape.type, spread.data(), counts.data(), places.data(),
                          shape.type, root, inter));
    for (int i = 0; root == MPI_ROOT && i < others; ++i)
      spread.expect(places[(size_t)i], counts[(size_t)i], other(i), at);
    spread.expect_rest_untouched();
    for (int i = 0; i < others; ++i)
      spread.fill(places[(size_t)i], counts[(size_t)i], at, other(i));
    CHECK_MPI(MPI_Scatterv(spread.data(), counts.data(), places.data(), shape.type, piece.data(), my_count,
                           shape.type, root, inter));
    if (root >= 0) piece.expect(0, my_count, at, me());
    piece.expect_rest_untouched();
  });
}

/* The two groups send blocks of different sizes. */
static void allgather(const Shape& shape, int scale) {
  const int out_count = low ? scale : scale / 2 + 1, in_count = low ? scale / 2 + 1 : scale;
  Buffer mine(shape, out_count), all(shape, in_count * others);
  mine.fill(0, out_count, me(), 0);
  CHECK_MPI(MPI_Allgather(mine.data(), out_count, shape.type, all.data(), in_count, shape.type, inter));
  for (int i = 0; i < others; ++i)
    all.expect(i * in_count, in_count, other(i), 0);
  all.expect_rest_untouched();

  const auto count = [&](bool of_low, int r) { return r % 3 == 2 ? 0 : (of_low ? scale : scale / 3) + r; };
  std::vector<int> counts, places;
  int total = 0;
  for (int i = others - 1; i >= 0; --i) {
    counts.insert(counts.begin(), count(!low, i));
    places.insert(places.begin(), total);
    total += counts.front() + 1;
  }
  const int my_count = count(low, rank);
  Buffer send(shape, my_count), receive(shape, total);
  send.fill(0, my_count, me(), 0);
  CHECK_MPI(MPI_Allgatherv(send.data(), my_count, shape.type, receive.data(), counts.data(), places.data(),
                           shape.type, inter));
  for (int i = 0; i < others; ++i)
    receive.expect(places[(size_t)i], counts[(size_t)i], other(i), 0);
  receive.expect_rest_untouched();
}

static void alltoall(const Shape& shape, int scale) {
  const int out_count = low ? scale : scale / 2 + 1, in_count = low ? scale / 2 + 1 : scale;
  Buffer leaving(shape, out_count * others), arriving(shape, in_count * others);
  std::vector<int> out_counts((size_t)others, out_count), in_counts((size_t)others, in_count), out_places,
      in_places;
  for (int i = 0; i < others; ++i) {
    leaving.fill(i * out_count, out_count, me(), other(i));
    out_places.push_back(i * out_count);
    in_places.push_back(i * in_count);
  }
  CHECK_MPI(
      MPI_Alltoall(leaving.data(), out_count, shape.type, arriving.data(), in_count, shape.type, inter));
  for (int i = 0; i < others; ++i)
    arriving.expect(i * in_count, in_count, other(i), me());
  arriving.expect_rest_untouched();
  CHECK_MPI(MPI_Alltoallv(leaving.data(), out_counts.data(), out_places.data(), shape.type, arriving.data(),
                          in_counts.data(), in_places.data(), shape.type, inter));
  for (int i = 0; i < others; ++i)
    arriving.expect(i * in_count, in_count, other(i), me());
  arriving.expect_rest_untouched();
}

/* Sum over the other group of what process `p` contributes at index i: p + i. */
static int sum_of_others(int i) {
  int sum = 0;
  for (int r = 0; r < others; ++r)
    sum += other(r) + i;
  return sum;
}

static void reductions(int count) {
  std::vector<int> mine((size_t)count), result((size_t)count, -1);
  for (int i = 0; i < count; ++i)
    mine[(size_t)i] = me() + i;
  CHECK_MPI(MPI_Allreduce(mine.data(), result.data(), count, MPI_INT, MPI_SUM, inter));
  for (int i = 0; i < count; ++i)
    CHECK_EQUAL(result[(size_t)i], sum_of_others(i));
  for_roots([&](int root, int) {
    std::fill(result.begin(), result.end(), -1);
    CHECK_MPI(MPI_Reduce(mine.data(), result.data(), count, MPI_INT, MPI_SUM, root, inter));
    for (int i = 0; i < count; ++i)
      CHECK_EQUAL(result[(size_t)i], root == MPI_ROOT ? sum_of_others(i) : -1);
  });
  /* The result has one piece for each process of either group. */
  const int piece = count * others, total = piece * size;
  std::vector<int> operand((size_t)total), part((size_t)piece, -1), counts((size_t)size, piece);
  for (int i = 0; i < total; ++i)
    operand[(size_t)i] = me() + i;
  for (const bool block : {true, false}) {
    if (block)
      CHECK_MPI(MPI_Reduce_scatter_block(operand.data(), part.data(), piece, MPI_INT, MPI_SUM, inter));
    else
      CHECK_MPI(MPI_Reduce_scatter(operand.data(), part.data(), counts.data(), MPI_INT, MPI_SUM, inter));
    for (int i = 0; i < piece; ++i) {
      CHECK_EQUAL(part[(size_t)i], sum_of_others(rank * piece + i));
      part[(size_t)i] = -1;
    }
  }
}

/* Nobody leaves before everybody of the other group has come. */
static void barrier() {
  for (int late = 0; late < others + size; ++late) {
    MPI_Request request = MPI_REQUEST_NULL;
    int word = -1;
    /* Numbered across both groups, the low one first. */
    const bool late_here = low ? late < size : late >= others;
    const int index = low ? late : late - others;
    const int other_index = low ? late - size : late;
    if (!late_here) CHECK_MPI(MPI_Irecv(&word, 1, MPI_INT, other_index, 1, inter, &request));
    CHECK_MPI(MPI_Barrier(inter));
    if (late_here && index == rank)
      for (int i = 0; i < others; ++i)
        CHECK_MPI(MPI_Ssend(&late, 1, MPI_INT, i, 1, inter));
    CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (!late_here) CHECK_EQUAL(word, late);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int world_rank, world_size;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  for (const int split : {1, world_size / 2, world_size - 1}) {
    low = world_rank < split;
    MPI_Comm group;
    MPI_Comm_split(MPI_COMM_WORLD, low, 0, &group);
    MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, low ? split : 0, 5, &inter);
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_size(inter, &size);
    MPI_Comm_remote_size(inter, &others);
    barrier();
    const Shape plain = Shape::plain(), gapped = Shape::gapped();
    for (const Shape* shape : {&plain, &gapped}) {
      for (const int count : sizes) {
        bcast(*shape, count);
        gather_scatter(*shape, count);
        allgather(*shape, count);
        alltoall(*shape, count);
      }
    }
    for (const int count : {0, 1, 13, 700, 5000})
      reductions(count);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&group);
  }
  MPI_Finalize();
  return 0;
}
