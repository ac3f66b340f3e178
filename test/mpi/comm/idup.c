/* Duplicating communicators without waiting: many at once, completed in any order, beside other traffic. */
#include "../check.h"

enum { copies = 6 };

static int copied;

static int count_copy(MPI_Comm comm, int keyval, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)keyval, (void)extra;
  *(void**)out = in;
  *flag = 1;
  ++copied;
  return MPI_SUCCESS;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size, rank, keyval, flag, sum, *value, number = 11;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm parent, made[copies], other;
  MPI_Request requests[copies];
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  MPI_Comm_create_keyval(count_copy, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
  MPI_Comm_set_attr(parent, keyval, &number);

  for (int i = 0; i < copies; ++i)
    MPI_Comm_idup(parent, &made[i], &requests[i]);
  CHECK_EQUAL(copied, copies); /* attributes are those of the call */
  MPI_Comm_delete_attr(parent, keyval);
  /* Collectives and other communicators of the same parent do not get between. */
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, parent);
  CHECK_EQUAL(sum, size * (size - 1) / 2);
  MPI_Comm_dup(parent, &other);
  MPI_Comm_free(&parent);

  /* Half of the ranks wait for the last one first, one at a time; the others for all, by tests. */
  if (rank % 2 == 0) {
    for (int i = copies - 1; i >= 0; --i)
      MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  } else {
    do
      MPI_Testall(copies, requests, &flag, MPI_STATUSES_IGNORE);
    while (!flag);
  }
  for (int i = 0; i < copies; ++i) {
    CHECK(requests[i] == MPI_REQUEST_NULL);
    int result;
    MPI_Comm_compare(made[i], other, &result);
    CHECK_EQUAL(result, MPI_CONGRUENT);
    MPI_Comm_get_attr(made[i], keyval, &value, &flag);
    CHECK(flag && value == &number);
  }
  /* Each is the same one everywhere: messages of one do not show up in another. */
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Request receives[copies];
  int got[copies];
  for (int i = 0; i < copies; ++i)
    MPI_Irecv(&got[i], 1, MPI_INT, previous, 0, made[i], &receives[i]);
  for (int i = copies - 1; i >= 0; --i)
    MPI_Send(&i, 1, MPI_INT, next, 0, made[i]);
  MPI_Waitall(copies, receives, MPI_STATUSES_IGNORE);
  for (int i = 0; i < copies; ++i)
    CHECK_EQUAL(got[i], i);

  MPI_Info info;
  MPI_Request request;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_exact_length", "true");
  MPI_Comm hinted;
  MPI_Comm_idup_with_info(other, info, &hinted, &request);
  MPI_Info_free(&info);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_get_info(hinted, &info);
  int length = 0;
  MPI_Info_get_string(info, "mpi_assert_exact_length", &length, NULL, &flag);
  CHECK(flag && length == 5);
  MPI_Info_free(&info);

  /* A duplicate inherits no hints. */
  MPI_Comm unhinted;
  MPI_Comm_idup(hinted, &unhinted, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_get_info(unhinted, &info);
  length = 0;
  MPI_Info_get_string(info, "mpi_assert_exact_length", &length, NULL, &flag);
  CHECK(!flag);
  MPI_Info_free(&info);
  MPI_Comm_free(&unhinted);

  for (int i = 0; i < copies; ++i)
    MPI_Comm_free(&made[i]);
  MPI_Comm_free(&other);
  MPI_Comm_free(&hinted);
  MPI_Comm_free_keyval(&keyval);
  CHECK_EQUAL(keyval, MPI_KEYVAL_INVALID);
  MPI_Finalize();
  return 0;
}
