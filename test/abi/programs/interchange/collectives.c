/* Part of the interchange program; see main.c. */

#include "interchange.h"

#include <string.h>

static int op_calls;

/* Affine maps x -> a x + b compose associatively, not commutatively. */
static void compose(void* in, void* inout, int* count, MPI_Datatype* type) {
  const int* first = (const int*)in;
  int* second = (int*)inout;
  int i;
  CHECK(*type == MPI_2INT);
  for (i = 0; i < *count; ++i) {
    const int a = first[2 * i] * second[2 * i], b = first[2 * i + 1] * second[2 * i] + second[2 * i + 1];
    second[2 * i] = a;
    second[2 * i + 1] = b;
  }
  ++op_calls;
}

static void compose_c(void* in, void* inout, MPI_Count* count, MPI_Datatype* type) {
  int small = (int)*count;
  compose(in, inout, &small, type);
}

void reductions(void) {
  int map[2] = {rank + 2, rank + 1}, result[2] = {-1, -1}, commutes, value = rank + 1, other;
  struct {
    double value;
    int where;
  } mine = {(rank * 7) % 3 + 0.5, rank}, best;
  unsigned char bits = (unsigned char)(1u << rank);
  MPI_Op op, op_c;

  OK(MPI_Op_create(compose, 0, &op));
  OK(MPI_Op_create_c(compose_c, 0, &op_c));
  OK(MPI_Op_commutative(op, &commutes));
  CHECK(!commutes);
  OK(MPI_Allreduce(map, result, 1, MPI_2INT, op, MPI_COMM_WORLD));
  record("composed: %d %d\n", result[0], result[1]);
  OK(MPI_Allreduce_c(map, result, 1, MPI_2INT, op_c, MPI_COMM_WORLD));
  record("composed by large count: %d %d\n", result[0], result[1]);
  OK(MPI_Scan(map, result, 1, MPI_2INT, op, MPI_COMM_WORLD));
  record("scanned: %d %d\n", result[0], result[1]);
  OK(MPI_Reduce_local(map, result, 1, MPI_2INT, op));
  record("locally: %d %d\n", result[0], result[1]);
  OK(MPI_Op_free(&op));
  OK(MPI_Op_free(&op_c));
  CHECK(op == MPI_OP_NULL && op_calls > 0);

  OK(MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD));
  record("largest: %.1f at %d\n", best.value, best.where);
  OK(MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD));
  record("smallest: %.1f at %d\n", best.value, best.where);
  OK(MPI_Allreduce(MPI_IN_PLACE, &bits, 1, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD));
  OK(MPI_Allreduce(&value, &other, 1, MPI_INT, MPI_PROD, MPI_COMM_WORLD));
  record("bits %d, product %d\n", bits, other);
  OK(MPI_Reduce(&value, &other, 1, MPI_INT, MPI_SUM, size - 1, MPI_COMM_WORLD));
  if (rank == size - 1) record("sum at the root: %d\n", other);
  OK(MPI_Exscan(&value, &other, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  if (rank > 0) record("exscan: %d\n", other);
}

void collectives(void) {
  int counts[16], displacements[16], i, value = rank == 1 ? 42 : 0, all[64], mine[16], total = 0;
  MPI_Datatype types[16];

  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Bcast(&value, 1, MPI_INT, 1, MPI_COMM_WORLD));
  record("bcast %d\n", value);
  for (i = 0; i < size; ++i) {
    counts[i] = i + 1;
    displacements[i] = total;
    total += counts[i];
    mine[i] = 100 * rank + i;
    types[i] = MPI_INT;
  }
  OK(MPI_Allgatherv(mine, rank + 1, MPI_INT, all, counts, displacements, MPI_INT, MPI_COMM_WORLD));
  record("allgatherv");
  for (i = 0; i < total; ++i)
    record(" %d", all[i]);
  OK(MPI_Alltoall(mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
  record("\nalltoall");
  for (i = 0; i < size; ++i)
    record(" %d", all[i]);
  for (i = 0; i < size; ++i) {
    counts[i] = 1;
    displacements[i] = (int)sizeof(int) * i;
  }
  memset(all, 0, sizeof all);
  OK(MPI_Alltoallw(mine, counts, displacements, types, all, counts, displacements, types, MPI_COMM_WORLD));
  record("\nalltoallw");
  for (i = 0; i < size; ++i)
    record(" %d", all[i]);
  OK(MPI_Gather(&value, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD));
  OK(MPI_Scatter(mine, 1, MPI_INT, rank == 0 ? MPI_IN_PLACE : &value, 1, MPI_INT, 0, MPI_COMM_WORLD));
  OK(MPI_Reduce_scatter_block(mine, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  record("\nreduce_scatter_block %d\n", value);
}
