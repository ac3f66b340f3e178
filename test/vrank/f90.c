/* The types of Fortran's kinds, which each rank of a process asks for: its handles are its own, name these
   types in its calls and in its callbacks, and nobody else's types. */
#include <stdio.h>

#include "../mpi/check.h"

enum { kinds = 4 };
static const int combiners[kinds] = {MPI_COMBINER_F90_REAL, MPI_COMBINER_F90_REAL, MPI_COMBINER_F90_COMPLEX,
                                     MPI_COMBINER_F90_INTEGER};
static const int arguments[kinds][2] = {{15, 307}, {6, MPI_UNDEFINED}, {15, MPI_UNDEFINED}, {18, 0}};
static const int sizes[kinds] = {8, 4, 16, 8};
static int rank, size;

static MPI_Datatype ask(int kind) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  switch (combiners[kind]) {
    case MPI_COMBINER_F90_REAL:
      MPI_Type_create_f90_real(arguments[kind][0], arguments[kind][1], &type);
      break;
    case MPI_COMBINER_F90_COMPLEX:
      MPI_Type_create_f90_complex(arguments[kind][0], arguments[kind][1], &type);
      break;
    default:
      MPI_Type_create_f90_integer(arguments[kind][0], &type);
      break;
  }
  return type;
}

static void check_type(MPI_Datatype type, int kind) {
  int bytes, integers, addresses, types, combiner, told[2] = {-1, -1};
  MPI_Type_size(type, &bytes);
  CHECK_EQUAL(bytes, sizes[kind]);
  MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  CHECK_EQUAL(combiner, combiners[kind]);
  CHECK_EQUAL(integers, kind == 3 ? 1 : 2);
  MPI_Type_get_contents(type, integers, 0, 0, told, NULL, NULL);
  CHECK_EQUAL(told[0], arguments[kind][0]);
  if (integers == 2) CHECK_EQUAL(told[1], arguments[kind][1]);
  CHECK(ask(kind) == type);
}

/* The types that a rank has made itself, of 3 integers and more. */
static void check_own(const MPI_Datatype* own, int count, MPI_Datatype other) {
  for (int i = 0; i < count; ++i) {
    int bytes;
    CHECK(own[i] != other);
    MPI_Type_size(own[i], &bytes);
    CHECK_EQUAL(bytes, 4 * (i + 3));
  }
}

static MPI_Datatype seen;
static void add(void* in, void* inout, int* count, MPI_Datatype* type) {
  seen = *type;
  for (int i = 0; i < *count; ++i)
    ((double*)inout)[i] += ((double*)in)[i];
}

static int deleted_of;
static int on_delete(MPI_Datatype type, int key, void* value, void* extra) {
  (void)key, (void)value, (void)extra;
  MPI_Type_size(type, &deleted_of);
  return MPI_SUCCESS;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Datatype own[64], type[kinds];
  const int made = 2 * rank < 64 ? 2 * rank : 64;
  for (int i = 0; i < made; ++i)
    MPI_Type_contiguous(i + 3, MPI_INT, &own[i]);
  /* One after the other, each beginning with another kind: the same kind has other handles in each rank. */
  for (int turn = 0; turn < size; ++turn) {
    for (int i = 0; turn == rank && i < kinds; ++i) {
      const int kind = (i + rank) % kinds;
      type[kind] = ask(kind);
      check_own(own, made, type[kind]);
      check_type(type[kind], kind);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  for (int kind = 0; kind < kinds; ++kind)
    check_type(type[kind], kind);

  /* In messages, and as functions of the program see them. */
  MPI_Op op;
  double mine = rank + 1, all = 0;
  MPI_Allreduce(&mine, &all, 1, type[0], MPI_SUM, MPI_COMM_WORLD);
  CHECK(all == size * (size + 1) / 2.0);
  MPI_Op_create(add, 1, &op);
  MPI_Reduce_local(&mine, &all, 1, type[0], op);
  CHECK(seen == type[0]);
  CHECK(all == size * (size + 1) / 2.0 + mine);
  MPI_Op_free(&op);

  /* Names and attributes. */
  char name[MPI_MAX_OBJECT_NAME], wanted[32];
  int key, flag, length;
  void* value;
  snprintf(wanted, sizeof wanted, "real of %d", rank);
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, on_delete, &key, NULL);
  MPI_Type_get_name(type[0], name, &length);
  CHECK_EQUAL(length, 0);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Type_set_name(type[0], wanted);
  MPI_Type_set_attr(type[0], key, &mine);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Type_get_name(type[0], name, &length);
  CHECK(strcmp(name, wanted) == 0);
  MPI_Type_get_attr(type[0], key, &value, &flag);
  CHECK(flag && value == &mine);
  MPI_Type_delete_attr(type[0], key);
  CHECK_EQUAL(deleted_of, 8);
  MPI_Type_free_keyval(&key);
  for (int i = 0; i < made; ++i)
    MPI_Type_free(&own[i]);
  if (rank == 0) printf("%d ranks, 0 failures\n", size);
  MPI_Finalize();
  return 0;
}
