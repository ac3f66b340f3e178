/* Reductions: sizes around all switch points, predefined, user-defined and non-commutative operations,
 * derived types, all roots that differ, MPI_IN_PLACE; the same bits on every rank. ranks: 1 2 3 4 5 6 7 8 9
 */
#include <algorithm>
#include <cstdint>

#include "data.h"

/* An operation whose result tells what was combined, and in which order. */
struct Kind {
  const char* name;
  MPI_Datatype type;
  MPI_Op op;
  int words;       /* 32-bit words of an element, holes included */
  bool first_only; /* only the first word of an element is data */
};

/* The maps x -> a*x + b over the integers modulo 2^32 do not commute under composition. In `inout` the left
 * operand is applied first. */
static void compose(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* left = static_cast<const std::uint32_t*>(in);
  auto* right = static_cast<std::uint32_t*>(inout);
  for (int i = 0; i < *count; ++i) {
    const std::uint32_t a = left[2 * i], b = left[2 * i + 1];
    const std::uint32_t c = right[2 * i], d = right[2 * i + 1];
    right[2 * i] = c * a;
    right[2 * i + 1] = c * b + d;
  }
}

/* Adds the first of every three words, and must not touch the others. */
static void add_first_of_three(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* left = static_cast<const std::uint32_t*>(in);
  auto* right = static_cast<std::uint32_t*>(inout);
  for (int i = 0; i < *count; ++i)
    right[3 * i] += left[3 * i];
}

using Words = std::vector<std::uint32_t>;

static Words operand(const Kind& kind, int rank, int count) {
  Words words((size_t)(count * kind.words), 0xdeadbeef);
  for (int i = 0; i < count * kind.words; ++i)
    if (!kind.first_only || i % kind.words == 0)
      words[(size_t)i] = (std::uint32_t)(rank * 17 + i * 3 + 1) | (kind.words == 2 && i % 2 == 0 ? 1U : 0U);
  return words;
}

/* What the ranks from `first` to `last` give, one after the other. */
static Words expected(const Kind& kind, int first, int last, int count) {
  Words sum = operand(kind, last, count);
  for (int rank = last - 1; rank >= first; --rank) {
    Words left = operand(kind, rank, count);
    if (count > 0) MPI_Reduce_local(left.data(), sum.data(), count, kind.type, kind.op);
  }
  return sum;
}

static void expect_words(const Words& found, const Words& wanted, const char* name) {
  const auto [at, other] = std::mismatch(wanted.begin(), wanted.end(), found.begin());
  if (at == wanted.end()) return;
  char text[120];
  snprintf(text, sizeof text, "%s: word %zu of %zu is %u, not %u", name, (size_t)(at - wanted.begin()),
           wanted.size(), *other, *at);
  check_failed(__FILE__, __LINE__, "result", text);
}

static void reduce(MPI_Comm comm, int rank, int size, const Kind& kind, int count) {
  const Words mine = operand(kind, rank, count), sum = expected(kind, 0, size - 1, count);
  for (const int root : roots(size)) {
    Words result = operand(kind, 99, count);
    if (kind.first_only) result = mine; /* holes as in the operand */
    CHECK_MPI(MPI_Reduce(mine.data(), rank == root ? result.data() : nullptr, count, kind.type, kind.op, root,
                         comm));
    if (rank == root) expect_words(result, sum, "reduce");
    result = mine;
    CHECK_MPI(MPI_Reduce(rank == root ? MPI_IN_PLACE : mine.data(), result.data(), count, kind.type, kind.op,
                         root, comm));
    expect_words(result, rank == root ? sum : mine, "reduce in place");
  }
  Words result = mine;
  CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, result.data(), count, kind.type, kind.op, comm));
  expect_words(result, sum, "allreduce in place");
  std::fill(result.begin(), result.end(), 1U);
  if (kind.first_only) result = operand(kind, 3, count);
  CHECK_MPI(MPI_Allreduce(mine.data(), result.data(), count, kind.type, kind.op, comm));
  expect_words(result, sum, "allreduce");
}

static void scan(MPI_Comm comm, int rank, const Kind& kind, int count) {
  const Words mine = operand(kind, rank, count);
  for (const bool in_place : {false, true}) {
    Words result = mine;
    CHECK_MPI(
        MPI_Scan(in_place ? MPI_IN_PLACE : mine.data(), result.data(), count, kind.type, kind.op, comm));
    expect_words(result, expected(kind, 0, rank, count), "scan");
    result = mine;
    CHECK_MPI(
        MPI_Exscan(in_place ? MPI_IN_PLACE : mine.data(), result.data(), count, kind.type, kind.op, comm));
    expect_words(result, rank == 0 ? mine : expected(kind, 0, rank - 1, count), "exscan");
  }
}

static void reduce_scatter(MPI_Comm comm, int rank, int size, const Kind& kind, int count) {
  /* Even pieces, then pieces of different sizes, some of them empty. */
  for (const bool even : {true, false}) {
    std::vector<int> counts((size_t)size, count), begin((size_t)size + 1, 0);
    for (int i = 0; i < size; ++i) {
      if (!even) counts[(size_t)i] = i % 3 == 1 ? 0 : count * (i + 1) / size;
      begin[(size_t)i + 1] = begin[(size_t)i] + counts[(size_t)i];
    }
    const int total = begin.back(), my_count = counts[(size_t)rank];
    const Words mine = operand(kind, rank, total), sum = expected(kind, 0, size - 1, total);
    const auto* from = sum.data() + begin[(size_t)rank] * kind.words;
    const Words piece(from, from + my_count * kind.words);
    Words result = operand(kind, 5, my_count);
    CHECK_MPI(MPI_Reduce_scatter(mine.data(), result.data(), counts.data(), kind.type, kind.op, comm));
    expect_words(result, piece, "reduce_scatter");
    Words all = mine;
    CHECK_MPI(MPI_Reduce_scatter(MPI_IN_PLACE, all.data(), counts.data(), kind.type, kind.op, comm));
    expect_words(Words(all.begin(), all.begin() + my_count * kind.words), piece, "reduce_scatter in place");
    if (!even) continue;
    result = operand(kind, 5, my_count);
    CHECK_MPI(MPI_Reduce_scatter_block(mine.data(), result.data(), count, kind.type, kind.op, comm));
    expect_words(result, piece, "reduce_scatter_block");
    all = mine;
    CHECK_MPI(MPI_Reduce_scatter_block(MPI_IN_PLACE, all.data(), count, kind.type, kind.op, comm));
    expect_words(Words(all.begin(), all.begin() + my_count * kind.words), piece,
                 "reduce_scatter_block in place");
  }
}

/* The order of the operands decides the last bits of a sum of floating-point numbers; all ranks get the same,
 * every time. */
static void same_bits(MPI_Comm comm, int rank, int size) {
  for (const int count : {1, 7, 300, 600, 5000, 30000, 100000}) {
    std::vector<double> mine((size_t)count), sum((size_t)count), again((size_t)count), first((size_t)count);
    for (int i = 0; i < count; ++i)
      mine[(size_t)i] = 1.0 / (1 + rank + i) * (i % 2 ? 1e10 : 1);
    CHECK_MPI(MPI_Allreduce(mine.data(), sum.data(), count, MPI_DOUBLE, MPI_SUM, comm));
    first = sum;
    CHECK_MPI(MPI_Bcast(first.data(), count, MPI_DOUBLE, size - 1, comm));
    CHECK(memcmp(first.data(), sum.data(), sizeof(double) * (size_t)count) == 0);
    CHECK_MPI(MPI_Allreduce(mine.data(), again.data(), count, MPI_DOUBLE, MPI_SUM, comm));
    CHECK(memcmp(again.data(), sum.data(), sizeof(double) * (size_t)count) == 0);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Op composition, addition;
  MPI_Datatype map, first_of_three;
  MPI_Op_create(compose, 0, &composition);
  MPI_Op_create(add_first_of_three, 1, &addition);
  MPI_Type_contiguous(2, MPI_UINT32_T, &map);
  MPI_Type_commit(&map);
  MPI_Type_create_resized(MPI_UINT32_T, 0, 3 * sizeof(std::uint32_t), &first_of_three);
  MPI_Type_commit(&first_of_three);
  const Kind kinds[] = {{"sum", MPI_UINT32_T, MPI_SUM, 1, false},
                        {"max", MPI_UINT32_T, MPI_MAX, 1, false},
                        {"composition", map, composition, 2, false},
                        {"addition with holes", first_of_three, addition, 3, true}};
  on_communicators([&](MPI_Comm comm, int rank, int size) {
    for (const Kind& kind : kinds) {
      for (const int words : {0, 1, 3, 12, 13, 65, 511, 513, 1025, 4097, 16385, 49153, 150001}) {
        const int count = (words + kind.words - 1) / kind.words;
        reduce(comm, rank, size, kind, count);
        if (count <= 5000) scan(comm, rank, kind, count);
        reduce_scatter(comm, rank, size, kind, count / size);
      }
    }
    same_bits(comm, rank, size);
  });
  MPI_Type_free(&map);
  MPI_Type_free(&first_of_three);
  MPI_Op_free(&composition);
  MPI_Op_free(&addition);
  MPI_Finalize();
  return 0;
}
