/* MPI_Sendrecv and its relatives around a ring, at sizes of every protocol: no deadlock, right data. */
#include "../check.h"

static int rank, size, left, right;

static void fill(int* data, int count, int value) {
  for (int i = 0; i < count; ++i)
    data[i] = value + i;
}
static void expect(const int* data, int count, int value) {
  for (int i = 0; i < count; ++i)
    CHECK_EQUAL(data[i], value + i);
}
static void expect_status(const MPI_Status* status, int tag, int count) {
  int received;
  CHECK_EQUAL(status->MPI_SOURCE, left);
  CHECK_EQUAL(status->MPI_TAG, tag);
  MPI_Get_count(status, MPI_INT, &received);
  CHECK_EQUAL(received, count);
}

static void test(int count) {
  int *out = malloc(sizeof(int) * (size_t)count), *in = malloc(sizeof(int) * (size_t)count);
  MPI_Status status;
  MPI_Request request;
  fill(out, count, rank * 1000);
  CHECK_MPI(
      MPI_Sendrecv(out, count, MPI_INT, right, 1, in, count, MPI_INT, left, 1, MPI_COMM_WORLD, &status));
  expect(in, count, left * 1000);
  expect_status(&status, 1, count);

  memset(in, 0, sizeof(int) * (size_t)count);
  CHECK_MPI(MPI_Isendrecv(out, count, MPI_INT, right, 2, in, count, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                          MPI_COMM_WORLD, &request));
  CHECK_MPI(MPI_Wait(&request, &status));
  CHECK(request == MPI_REQUEST_NULL);
  expect(in, count, left * 1000);
  expect_status(&status, 2, count);

  CHECK_MPI(MPI_Sendrecv_replace(out, count, MPI_INT, right, 3, left, 3, MPI_COMM_WORLD, &status));
  expect(out, count, left * 1000);
  expect_status(&status, 3, count);

  fill(out, count, rank * 1000);
  CHECK_MPI(MPI_Isendrecv_replace(out, count, MPI_INT, right, 4, left, 4, MPI_COMM_WORLD, &request));
  int flag = 0;
  while (!flag)
    CHECK_MPI(MPI_Test(&request, &flag, &status));
  expect(out, count, left * 1000);
  expect_status(&status, 4, count);

  /* A column in place of itself. */
  MPI_Datatype column;
  int* matrix = malloc(sizeof(int) * 2 * (size_t)count);
  for (int i = 0; i < count; ++i) {
    matrix[2 * i] = rank * 1000 + i;
    matrix[2 * i + 1] = -1;
  }
  MPI_Type_vector(count, 1, 2, MPI_INT, &column);
  MPI_Type_commit(&column);
  CHECK_MPI(MPI_Sendrecv_replace(matrix, 1, column, right, 5, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  for (int i = 0; i < count; ++i) {
    CHECK_EQUAL(matrix[2 * i], left * 1000 + i);
    CHECK_EQUAL(matrix[2 * i + 1], -1);
  }
  CHECK_MPI(MPI_Isendrecv_replace_c(matrix, 1, column, left, 6, right, 6, MPI_COMM_WORLD, &request));
  MPI_Type_free(&column); /* the operation keeps it */
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  for (int i = 0; i < count; ++i)
    CHECK_EQUAL(matrix[2 * i], rank * 1000 + i);
  free(matrix);
  free(out);
  free(in);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  right = (rank + 1) % size;
  left = (rank + size - 1) % size;
  static const int counts[] = {1, 9, 50, 2000, 5000, 100000, 500000};
  for (int i = 0; i < 7; ++i)
    test(counts[i]);
  MPI_Finalize();
  return 0;
}
