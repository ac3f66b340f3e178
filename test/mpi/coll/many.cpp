/* More ranks than look at each other one by one: trees of counters, areas given back. ranks: 18 40 */
#include <cstdint>

#include "data.h"

/* The maps x -> a*x + b modulo 2^32, the left one first: associative, not commutative. */
static void compose(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* left = static_cast<const std::uint32_t*>(in);
  auto* right = static_cast<std::uint32_t*>(inout);
  for (int i = 0; i < *count; ++i) {
    const std::uint32_t b = left[2 * i + 1], c = right[2 * i];
    right[2 * i] = c * left[2 * i];
    right[2 * i + 1] += c * b;
  }
}

static std::vector<std::uint32_t> maps(int rank, int count) {
  std::vector<std::uint32_t> words((size_t)count * 2);
  for (int i = 0; i < 2 * count; ++i)
    words[(size_t)i] = (std::uint32_t)(rank * 31 + i * 7 + 1) | (std::uint32_t)(i % 2 == 0);
  return words;
}

static void reductions(int rank, int size) {
  MPI_Datatype map;
  MPI_Op composition;
  MPI_Type_contiguous(2, MPI_UINT32_T, &map);
  MPI_Type_commit(&map);
  MPI_Op_create(compose, 0, &composition);
  for (const int count : {1, 5, 100, 2048, 2050, 10000}) {
    const std::vector<std::uint32_t> mine = maps(rank, count);
    std::vector<std::uint32_t> wanted = maps(size - 1, count), result(mine.size());
    for (int i = size - 2; i >= 0; --i)
      MPI_Reduce_local(maps(i, count).data(), wanted.data(), count, map, composition);
    for (int round = 0; round < 3; ++round) {
      result.assign(result.size(), 0);
      CHECK_MPI(MPI_Allreduce(mine.data(), result.data(), count, map, composition, MPI_COMM_WORLD));
      CHECK(result == wanted);
      result = mine;
      CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, result.data(), count, map, composition, MPI_COMM_WORLD));
      CHECK(result == wanted);
      const int root = (round * 17 + 3) % size;
      result.assign(result.size(), 0);
      CHECK_MPI(MPI_Reduce(mine.data(), result.data(), count, map, composition, root, MPI_COMM_WORLD));
      if (rank == root) CHECK(result == wanted);
    }
  }
  MPI_Type_free(&map);
  MPI_Op_free(&composition);
}

static void moves(int rank, int size) {
  const Shape shape = Shape::gapped();
  for (const int count : {0, 1, 40, 3000}) {
    Buffer mine(shape, count), all(shape, count * size), leaving(shape, count * size);
    for (const int root : roots(size)) {
      if (rank == root) mine.fill(0, count, root, 0);
      CHECK_MPI(MPI_Bcast(mine.data(), count, shape.type, root, MPI_COMM_WORLD));
      mine.expect(0, count, root, 0);
      mine.fill(0, count, rank, root);
      CHECK_MPI(
          MPI_Gather(mine.data(), count, shape.type, all.data(), count, shape.type, root, MPI_COMM_WORLD));
      for (int i = 0; rank == root && i < size; ++i)
        all.expect(i * count, count, i, root);
      for (int i = 0; rank == root && i < size; ++i)
        all.fill(i * count, count, root, i);
      CHECK_MPI(
          MPI_Scatter(all.data(), count, shape.type, mine.data(), count, shape.type, root, MPI_COMM_WORLD));
      mine.expect(0, count, root, rank);
      for (int i = 0; rank == root && i < size; ++i)
        all.expect(i * count, count, root, i);
    }
    mine.fill(0, count, rank, 1);
    CHECK_MPI(MPI_Allgather(mine.data(), count, shape.type, all.data(), count, shape.type, MPI_COMM_WORLD));
    for (int i = 0; i < size; ++i) {
      all.expect(i * count, count, i, 1);
      leaving.fill(i * count, count, rank, i);
    }
    CHECK_MPI(MPI_Alltoall(leaving.data(), count, shape.type, all.data(), count, shape.type, MPI_COMM_WORLD));
    for (int i = 0; i < size; ++i)
      all.expect(i * count, count, i, rank);
    all.expect_rest_untouched();
  }
}

/* Nobody leaves before the last has come. */
static void barrier(int rank, int size) {
  for (const int late : {0, 16, size - 1}) {
    int word = -1;
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank != late) CHECK_MPI(MPI_Irecv(&word, 1, MPI_INT, late, 1, MPI_COMM_WORLD, &request));
    CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; rank == late && i < size; ++i)
      if (i != late) CHECK_MPI(MPI_Ssend(&late, 1, MPI_INT, i, 1, MPI_COMM_WORLD));
    CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (rank != late) CHECK_EQUAL(word, late);
  }
}

/* Areas of communicators are given back and used again. */
static void communicators(int rank, int size) {
  for (int i = 0; i < 50; ++i) {
    MPI_Comm comm;
    CHECK_MPI(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm));
    int sum = 0;
    CHECK_MPI(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    int wanted = 0;
    for (int k = rank % 2; k < size; k += 2)
      wanted += k;
    CHECK_EQUAL(sum, wanted);
    CHECK_MPI(MPI_Comm_free(&comm));
  }
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  barrier(rank, size);
  reductions(rank, size);
  moves(rank, size);
  communicators(rank, size);
  MPI_Finalize();
  return 0;
}
