/* Barrier, bcast, gather, scatter, allgather, alltoall: sizes around all switch points, layouts that differ
 * between the sides, all roots that differ, MPI_IN_PLACE. ranks: 1 2 3 4 5 8 9 */
#include "data.h"

static void bcast(MPI_Comm comm, int rank, int size, const Shape& out, const Shape& in, int ints) {
  for (const int root : roots(size)) {
    const Shape& shape = rank == root ? out : in;
    const int count = ints / shape.ints();
    Buffer buffer(shape, count);
    if (rank == root) buffer.fill(0, count, root, 0);
    CHECK_MPI(MPI_Bcast(buffer.data(), count, shape.type, root, comm));
    buffer.expect(0, count, root, 0);
    buffer.expect_rest_untouched();
  }
}

static void gather(MPI_Comm comm, int rank, int size, const Shape& out, const Shape& in, int ints) {
  const int out_count = ints / out.ints(), in_count = ints / in.ints();
  Buffer mine(out, out_count), all(in, in_count * size);
  mine.fill(0, out_count, rank, 7);
  for (const int root : roots(size)) {
    for (const bool in_place : {false, true}) {
      if (in_place && rank == root) all.fill(root * in_count, in_count, root, 7);
      CHECK_MPI(MPI_Gather(in_place && rank == root ? MPI_IN_PLACE : mine.data(), out_count, out.type,
                           all.data(), in_count, in.type, root, comm));
      for (int i = 0; rank == root && i < size; ++i)
        all.expect(i * in_count, in_count, i, 7);
      all.expect_rest_untouched();
    }
  }
}

static void scatter(MPI_Comm comm, int rank, int size, const Shape& out, const Shape& in, int ints) {
  const int out_count = ints / out.ints(), in_count = ints / in.ints();
  for (const int root : roots(size)) {
    Buffer all(out, out_count * size), mine(in, in_count);
    for (int i = 0; rank == root && i < size; ++i)
      all.fill(i * out_count, out_count, root, i);
    CHECK_MPI(MPI_Scatter(all.data(), out_count, out.type, mine.data(), in_count, in.type, root, comm));
    mine.expect(0, in_count, root, rank);
    mine.expect_rest_untouched();
    CHECK_MPI(MPI_Scatter(all.data(), out_count, out.type, rank == root ? MPI_IN_PLACE : mine.data(),
                          in_count, in.type, root, comm));
    if (rank != root) mine.expect(0, in_count, root, rank);
    mine.expect_rest_untouched();
  }
}

static void allgather(MPI_Comm comm, int rank, int size, const Shape& out, const Shape& in, int ints) {
  const int out_count = ints / out.ints(), in_count = ints / in.ints();
  Buffer mine(out, out_count), all(in, in_count * size);
  mine.fill(0, out_count, rank, 0);
  for (const bool in_place : {false, true}) {
    if (in_place) all.fill(rank * in_count, in_count, rank, 0);
    CHECK_MPI(MPI_Allgather(in_place ? MPI_IN_PLACE : mine.data(), out_count, out.type, all.data(), in_count,
                            in.type, comm));
    for (int i = 0; i < size; ++i)
      all.expect(i * in_count, in_count, i, 0);
    all.expect_rest_untouched();
  }
}

static void alltoall(MPI_Comm comm, int rank, int size, const Shape& out, const Shape& in, int ints) {
  const int out_count = ints / out.ints(), in_count = ints / in.ints();
  Buffer leaving(out, out_count * size), arriving(in, in_count * size);
  for (int i = 0; i < size; ++i)
    leaving.fill(i * out_count, out_count, rank, i);
  for (const bool in_place : {false, true}) {
    for (int i = 0; in_place && i < size; ++i)
      arriving.fill(i * in_count, in_count, rank, i);
    CHECK_MPI(MPI_Alltoall(in_place ? MPI_IN_PLACE : leaving.data(), out_count, out.type, arriving.data(),
                           in_count, in.type, comm));
    for (int i = 0; i < size; ++i)
      arriving.expect(i * in_count, in_count, i, rank);
    arriving.expect_rest_untouched();
  }
}

/* Nobody leaves a barrier before the last one has come: rank r sends to all others before, and they have it
 * after. */
static void barrier(MPI_Comm comm, int rank, int size) {
  for (int late = 0; late < size; ++late) {
    int word = -1;
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank != late) CHECK_MPI(MPI_Irecv(&word, 1, MPI_INT, late, 1, comm, &request));
    CHECK_MPI(MPI_Barrier(comm));
    if (rank == late)
      for (int i = 0; i < size; ++i)
        if (i != late) CHECK_MPI(MPI_Ssend(&late, 1, MPI_INT, i, 1, comm));
    CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (rank != late) CHECK_EQUAL(word, late);
  }
}

/* Ranks that only receive, or only send, may run ahead: many calls of small rooted collectives in a row, with
 * roots that change and ranks that come late. */
static void rooted_in_a_row(MPI_Comm comm, int rank, int size) {
  for (int i = 0; i < 300; ++i) {
    const int root = i / 50 % size;
    int word = rank == root ? i : -1;
    CHECK_MPI(MPI_Bcast(&word, 1, MPI_INT, root, comm));
    CHECK_EQUAL(word, i);
    std::vector<int> all((size_t)size, -1);
    const int mine = i * size + rank;
    CHECK_MPI(MPI_Gather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, root, comm));
    for (int k = 0; rank == root && k < size; ++k)
      CHECK_EQUAL(all[(size_t)k], i * size + k);
    if (rank == root) {
      for (int k = 0; k < size; ++k)
        all[(size_t)k] = i + k;
    }
    CHECK_MPI(MPI_Scatter(all.data(), 1, MPI_INT, &word, 1, MPI_INT, root, comm));
    CHECK_EQUAL(word, i + rank);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  on_communicators([](MPI_Comm comm, int rank, int size) {
    barrier(comm, rank, size);
    rooted_in_a_row(comm, rank, size);
    with_shapes([&](const Shape& out, const Shape& in) {
      for (const int ints : all_counts())
        bcast(comm, rank, size, out, in, ints);
      for (const int ints : block_counts()) {
        gather(comm, rank, size, out, in, ints);
        scatter(comm, rank, size, out, in, ints);
        allgather(comm, rank, size, out, in, ints);
        alltoall(comm, rank, size, out, in, ints);
      }
    });
  });
  MPI_Finalize();
  return 0;
}
