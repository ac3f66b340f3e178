/* The collectives with a count and a place for each rank: blocks of different sizes, some empty, out of order
 * and with room between them; MPI_IN_PLACE. ranks: 1 2 3 5 8 9 */
#include "data.h"

/* Elements that rank `from` sends to rank `to`, up to about `scale`; none for some. */
static int block(int from, int to, int scale) {
  return (from * 5 + to * 3) % 4 == 3 ? 0 : (from + 2 * to + 1) * scale % 2003;
}

/* Blocks in backward order, two elements apart. */
struct Blocks {
  std::vector<int> counts, places;
  int total = 0;

  template <class Count>
  Blocks(int size, Count count) : counts((size_t)size), places((size_t)size) {
    for (int i = size - 1; i >= 0; --i) {
      counts[(size_t)i] = count(i);
      places[(size_t)i] = total;
      total += count(i) + 2;
    }
  }
  int count(int i) const { return counts[(size_t)i]; }
  int place(int i) const { return places[(size_t)i]; }
};

static void gatherv(MPI_Comm comm, int rank, int size, const Shape& shape, int scale) {
  const Blocks blocks(size, [&](int i) { return block(i, 0, scale); });
  Buffer mine(shape, blocks.count(rank)), all(shape, blocks.total);
  mine.fill(0, blocks.count(rank), rank, 0);
  for (const int root : roots(size)) {
    for (const bool in_place : {false, true}) {
      if (in_place && rank == root) all.fill(blocks.place(rank), blocks.count(rank), rank, 0);
      CHECK_MPI(MPI_Gatherv(in_place && rank == root ? MPI_IN_PLACE : mine.data(), blocks.count(rank),
                            shape.type, all.data(), blocks.counts.data(), blocks.places.data(), shape.type,
                            root, comm));
      for (int i = 0; rank == root && i < size; ++i)
        all.expect(blocks.place(i), blocks.count(i), i, 0);
      all.expect_rest_untouched();
    }
  }
}

static void scatterv(MPI_Comm comm, int rank, int size, const Shape& shape, int scale) {
  const Blocks blocks(size, [&](int i) { return block(0, i, scale); });
  for (const int root : roots(size)) {
    Buffer all(shape, blocks.total), mine(shape, blocks.count(rank));
    for (int i = 0; rank == root && i < size; ++i)
      all.fill(blocks.place(i), blocks.count(i), root, i);
    for (const bool in_place : {false, true}) {
      CHECK_MPI(MPI_Scatterv(all.data(), blocks.counts.data(), blocks.places.data(), shape.type,
                             in_place && rank == root ? MPI_IN_PLACE : mine.data(), blocks.count(rank),
                             shape.type, root, comm));
      if (!in_place || rank != root) mine.expect(0, blocks.count(rank), root, rank);
      mine.expect_rest_untouched();
    }
  }
}

static void allgatherv(MPI_Comm comm, int rank, int size, const Shape& shape, int scale) {
  const Blocks blocks(size, [&](int i) { return block(i, 0, scale); });
  Buffer mine(shape, blocks.count(rank)), all(shape, blocks.total);
  mine.fill(0, blocks.count(rank), rank, 0);
  for (const bool in_place : {false, true}) {
    if (in_place) all.fill(blocks.place(rank), blocks.count(rank), rank, 0);
    CHECK_MPI(MPI_Allgatherv(in_place ? MPI_IN_PLACE : mine.data(), blocks.count(rank), shape.type,
                             all.data(), blocks.counts.data(), blocks.places.data(), shape.type, comm));
    for (int i = 0; i < size; ++i)
      all.expect(blocks.place(i), blocks.count(i), i, 0);
    all.expect_rest_untouched();
  }
}

static void alltoallv(MPI_Comm comm, int rank, int size, const Shape& shape, int scale) {
  const Blocks out(size, [&](int i) { return block(rank, i, scale); });
  const Blocks in(size, [&](int i) { return block(i, rank, scale); });
  Buffer leaving(shape, out.total), arriving(shape, in.total);
  for (int i = 0; i < size; ++i)
    leaving.fill(out.place(i), out.count(i), rank, i);
  CHECK_MPI(MPI_Alltoallv(leaving.data(), out.counts.data(), out.places.data(), shape.type, arriving.data(),
                          in.counts.data(), in.places.data(), shape.type, comm));
  for (int i = 0; i < size; ++i)
    arriving.expect(in.place(i), in.count(i), i, rank);
  arriving.expect_rest_untouched();

  // In place, both directions of a pair have the same count.
  const auto symmetric = [&](int i) { return block(std::min(i, rank), std::max(i, rank), scale); };
  const Blocks both(size, symmetric);
  Buffer buffer(shape, both.total);
  for (int i = 0; i < size; ++i)
    buffer.fill(both.place(i), both.count(i), rank, i);
  CHECK_MPI(MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_DATATYPE_NULL, buffer.data(),
                          both.counts.data(), both.places.data(), shape.type, comm));
  for (int i = 0; i < size; ++i)
    buffer.expect(both.place(i), both.count(i), i, rank);
  buffer.expect_rest_untouched();
}

/* Each pair with types of its own, displacements in bytes. */
static void alltoallw(MPI_Comm comm, int rank, int size, const Shape& plain, const Shape& gapped, int scale) {
  const auto shape = [&](int from, int to) -> const Shape& { return (from + to) % 2 ? plain : gapped; };
  const auto pairs = [&](int from, int to) { return block(from, to, scale) / 2; };
  std::vector<int> out_counts, in_counts, out_places, in_places;
  std::vector<MPI_Datatype> out_types, in_types;
  std::vector<std::vector<int>> out_ints, in_ints;
  // The sender uses the shape of the sum of the ranks, the receiver the other one.
  int out_bytes = 0, in_bytes = 0;
  for (int i = 0; i < size; ++i) {
    const Shape &out = shape(rank, i), &in = shape(rank, i + 1);
    out_counts.push_back(pairs(rank, i) * 2 / out.ints());
    in_counts.push_back(pairs(i, rank) * 2 / in.ints());
    out_types.push_back(out_counts.back() ? out.type : MPI_DATATYPE_NULL);
    in_types.push_back(in.type);
    out_places.push_back(out_bytes);
    in_places.push_back(in_bytes);
    out_bytes += (out_counts.back() + 1) * out.extent * (int)sizeof(int);
    in_bytes += (in_counts.back() + 1) * in.extent * (int)sizeof(int);
  }
  std::vector<int> leaving((size_t)out_bytes / sizeof(int), untouched),
      arriving((size_t)in_bytes / sizeof(int), untouched);
  const auto place = [](std::vector<int>& memory, int bytes, const Shape& s, int i) -> int& {
    return memory[(size_t)bytes / sizeof(int) +
                  (size_t)(i / s.ints() * s.extent + s.places[(size_t)(i % s.ints())])];
  };
  for (int i = 0; i < size; ++i)
    for (int k = 0; k < pairs(rank, i) * 2; ++k)
      place(leaving, out_places[(size_t)i], shape(rank, i), k) = value(rank, i, k);
  CHECK_MPI(MPI_Alltoallw(leaving.data(), out_counts.data(), out_places.data(), out_types.data(),
                          arriving.data(), in_counts.data(), in_places.data(), in_types.data(), comm));
  for (int i = 0; i < size; ++i)
    for (int k = 0; k < pairs(i, rank) * 2; ++k) {
      int& word = place(arriving, in_places[(size_t)i], shape(rank, i + 1), k);
      CHECK_EQUAL(word, value(i, rank, k));
      word = untouched;
    }
  for (const int word : arriving)
    CHECK_EQUAL(word, untouched);
}

/* The forms with large counts find the same. */
static void large_counts(MPI_Comm comm, int rank, int size) {
  std::vector<MPI_Count> counts((size_t)size);
  std::vector<MPI_Aint> places((size_t)size);
  for (int i = 0; i < size; ++i) {
    counts[(size_t)i] = i + 1;
    places[(size_t)i] = (size - 1 - i) * (size + 1);
  }
  const std::vector<int> mine((size_t)size + 1, rank);
  std::vector<int> all((size_t)(size * (size + 1)), untouched);
  CHECK_MPI(MPI_Allgatherv_c(mine.data(), rank + 1, MPI_INT, all.data(), counts.data(), places.data(),
                             MPI_INT, comm));
  for (int i = 0; i < size; ++i)
    for (int k = 0; k < size + 1; ++k)
      CHECK_EQUAL(all[(size_t)(places[(size_t)i] + k)], k <= i ? i : untouched);
  std::vector<int> back((size_t)size, untouched);
  std::vector<MPI_Count> ones((size_t)size, 1);
  for (int i = 0; i < size; ++i)
    places[(size_t)i] = size - 1 - i;
  CHECK_MPI(MPI_Alltoallv_c(mine.data(), ones.data(), places.data(), MPI_INT, back.data(), ones.data(),
                            places.data(), MPI_INT, comm));
  for (int i = 0; i < size; ++i)
    CHECK_EQUAL(back[(size_t)(size - 1 - i)], i);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  on_communicators([](MPI_Comm comm, int rank, int size) {
    const Shape plain = Shape::plain(), gapped = Shape::gapped();
    for (const int scale : {1, 7, 130, 1999}) {
      for (const Shape* shape : {&plain, &gapped}) {
        gatherv(comm, rank, size, *shape, scale);
        scatterv(comm, rank, size, *shape, scale);
        allgatherv(comm, rank, size, *shape, scale);
        alltoallv(comm, rank, size, *shape, scale);
      }
      alltoallw(comm, rank, size, plain, gapped, scale);
    }
    large_counts(comm, rank, size);
  });
  MPI_Finalize();
  return 0;
}
