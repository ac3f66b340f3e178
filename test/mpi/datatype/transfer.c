/* Messages between different datatypes of one signature, at sizes on both sides of every protocol switch: a
   matrix's columns into another's rows, structs with gaps, parts of arrays, addresses from MPI_BOTTOM, types
   that are freed before the message arrives, and messages that are shorter than the receiver's type. */
#include "../check.h"

#include <stddef.h>

static int rank, size, left, right;

static void exchange(const void* out, int out_count, MPI_Datatype out_type, void* in, int in_count,
                     MPI_Datatype in_type, MPI_Status* status) {
  CHECK_MPI(MPI_Sendrecv(out, out_count, out_type, right, 1, in, in_count, in_type, left, 1, MPI_COMM_WORLD,
                         status));
}

/* Column by column out, row by row in: the matrix arrives transposed. */
static void transpose(int n) {
  MPI_Datatype column, columns;
  double *out = malloc(sizeof(double) * n * n), *in = malloc(sizeof(double) * n * n);
  for (int i = 0; i < n * n; ++i)
    out[i] = rank * 1e6 + i;
  CHECK_MPI(MPI_Type_vector(n, 1, n, MPI_DOUBLE, &column));
  CHECK_MPI(MPI_Type_create_hvector(n, 1, sizeof(double), column, &columns));
  CHECK_MPI(MPI_Type_commit(&columns));
  exchange(out, 1, columns, in, n * n, MPI_DOUBLE, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      CHECK(in[j * n + i] == left * 1e6 + i * n + j);
  memset(in, 0, sizeof(double) * n * n);
  exchange(out, n * n, MPI_DOUBLE, in, 1, columns, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      CHECK(in[j * n + i] == left * 1e6 + i * n + j);
  CHECK_MPI(MPI_Type_free(&column));
  CHECK_MPI(MPI_Type_free(&columns));
  free(out);
  free(in);
}

struct particle {
  char kind;
  double place[3];
  int id;
};

static void structs(int n) {
  const int lengths[] = {1, 3, 1};
  const MPI_Aint displacements[] = {offsetof(struct particle, kind), offsetof(struct particle, place),
                                    offsetof(struct particle, id)};
  const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
  MPI_Datatype packed, type;
  MPI_Status status;
  MPI_Aint lb, extent;
  int count;
  struct particle *out = malloc(sizeof *out * n), *in = malloc(sizeof *in * n);
  CHECK_MPI(MPI_Type_create_struct(3, lengths, displacements, types, &packed));
  CHECK_MPI(MPI_Type_get_extent(packed, &lb, &extent));
  CHECK_EQUAL(extent, sizeof(struct particle));
  CHECK_MPI(MPI_Type_create_resized(packed, 0, sizeof(struct particle), &type));
  CHECK_MPI(MPI_Type_commit(&type));
  CHECK_MPI(MPI_Type_free(&packed));
  memset(out, 0x55, sizeof *out * n);
  memset(in, 0x77, sizeof *in * n);
  for (int i = 0; i < n; ++i) {
    out[i].kind = (char)(i + rank);
    for (int d = 0; d < 3; ++d)
      out[i].place[d] = i + d * 0.25;
    out[i].id = i * 10 + rank;
  }
  exchange(out, n - 1, type, in, n, type, &status);
  CHECK_MPI(MPI_Get_count(&status, type, &count));
  CHECK_EQUAL(count, n - 1);
  CHECK_MPI(MPI_Get_elements(&status, type, &count));
  CHECK_EQUAL(count, 5 * (n - 1));
  for (int i = 0; i < n - 1; ++i) {
    CHECK(in[i].kind == (char)(i + left) && in[i].id == i * 10 + left);
    for (int d = 0; d < 3; ++d)
      CHECK(in[i].place[d] == i + d * 0.25);
    CHECK(((unsigned char*)&in[i])[1] == 0x77); /* gaps stay as they were */
  }
  CHECK(in[n - 1].kind == 0x77);
  CHECK_MPI(MPI_Type_free(&type));
  free(out);
  free(in);
}

/* The types are freed while their messages are under way (section 5.1.9). */
static void freed_under_way(int n) {
  MPI_Datatype type;
  MPI_Request requests[2];
  int *out = malloc(sizeof(int) * 2 * n), *in = calloc(2 * (size_t)n, sizeof(int));
  for (int i = 0; i < 2 * n; ++i)
    out[i] = i + rank;
  CHECK_MPI(MPI_Type_vector(n, 1, 2, MPI_INT, &type));
  CHECK_MPI(MPI_Type_commit(&type));
  CHECK_MPI(MPI_Irecv(in, 1, type, left, 2, MPI_COMM_WORLD, &requests[0]));
  CHECK_MPI(MPI_Isend(out, 1, type, right, 2, MPI_COMM_WORLD, &requests[1]));
  CHECK_MPI(MPI_Type_free(&type));
  CHECK_MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < n; ++i)
    CHECK(in[2 * i] == 2 * i + left && in[2 * i + 1] == 0);
  free(out);
  free(in);
}

static void from_bottom(void) {
  int first = rank, second[3] = {rank + 1, rank + 2, rank + 3}, in[4];
  const int lengths[] = {3, 1};
  MPI_Aint addresses[2];
  MPI_Datatype type;
  CHECK_MPI(MPI_Get_address(second, &addresses[0]));
  CHECK_MPI(MPI_Get_address(&first, &addresses[1]));
  CHECK_MPI(MPI_Type_create_hindexed(2, lengths, addresses, MPI_INT, &type));
  CHECK_MPI(MPI_Type_commit(&type));
  exchange(MPI_BOTTOM, 1, type, in, 4, MPI_INT, MPI_STATUS_IGNORE);
  CHECK(in[0] == left + 1 && in[2] == left + 3 && in[3] == left);
  CHECK_MPI(MPI_Type_free(&type));
}

/* A message that ends inside of an element, in the middle of a pair of numbers. */
static void partial_elements(void) {
  const int lengths[] = {1, 1};
  const MPI_Aint displacements[] = {0, 8};
  const MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT};
  struct {
    double value;
    int index;
  } in[4];
  double out = 0.5 + rank;
  MPI_Datatype type;
  MPI_Status status;
  int count;
  CHECK_MPI(MPI_Type_create_struct(2, lengths, displacements, types, &type));
  CHECK_MPI(MPI_Type_commit(&type));
  exchange(&out, 1, MPI_DOUBLE, in, 4, type, &status);
  CHECK(in[0].value == 0.5 + left);
  CHECK_MPI(MPI_Get_count(&status, type, &count));
  CHECK_EQUAL(count, MPI_UNDEFINED);
  CHECK_MPI(MPI_Get_elements(&status, type, &count));
  CHECK_EQUAL(count, 1);
  CHECK_MPI(MPI_Type_free(&type));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  right = (rank + 1) % size;
  left = (rank + size - 1) % size;
  const int sizes[] = {2, 3, 8, 33, 100, 400};
  for (int i = 0; i < 6; ++i) {
    transpose(sizes[i]);
    structs(sizes[i] * sizes[i]);
    freed_under_way(sizes[i] * sizes[i]);
  }
  from_bottom();
  partial_elements();
  MPI_Finalize();
  return 0;
}
