/* The wait and test families on null, pending, complete and failed operations, with and without statuses. */
#include "../check.h"

enum { n = 12 };
static int rank, size, left, right;

static void expect_empty(const MPI_Status* status) {
  int count;
  CHECK_EQUAL(status->MPI_SOURCE, MPI_ANY_SOURCE);
  CHECK_EQUAL(status->MPI_TAG, MPI_ANY_TAG);
  CHECK_EQUAL(status->MPI_ERROR, MPI_SUCCESS);
  MPI_Get_count(status, MPI_BYTE, &count);
  CHECK_EQUAL(count, 0);
}

static void test_null(void) {
  MPI_Request nulls[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Status status, statuses[3];
  int flag = 0, index = 5, outcount = 5, indices[3];
  memset(&status, 0x5a, sizeof status);
  CHECK_MPI(MPI_Wait(&nulls[0], &status));
  expect_empty(&status);
  CHECK_MPI(MPI_Wait(&nulls[0], MPI_STATUS_IGNORE));
  memset(&status, 0x5a, sizeof status);
  CHECK_MPI(MPI_Test(&nulls[0], &flag, &status));
  CHECK(flag);
  expect_empty(&status);
  memset(&status, 0x5a, sizeof status);
  CHECK_MPI(MPI_Waitany(3, nulls, &index, &status));
  CHECK_EQUAL(index, MPI_UNDEFINED);
  expect_empty(&status);
  CHECK_MPI(MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE));
  CHECK_EQUAL(index, MPI_UNDEFINED);
  flag = 0;
  CHECK_MPI(MPI_Testany(3, nulls, &index, &flag, &status));
  CHECK(flag);
  CHECK_EQUAL(index, MPI_UNDEFINED);
  memset(statuses, 0x5a, sizeof statuses);
  CHECK_MPI(MPI_Waitall(3, nulls, statuses));
  expect_empty(&statuses[2]);
  CHECK_MPI(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
  flag = 0;
  CHECK_MPI(MPI_Testall(3, nulls, &flag, MPI_STATUSES_IGNORE));
  CHECK(flag);
  CHECK_MPI(MPI_Waitsome(3, nulls, &outcount, indices, statuses));
  CHECK_EQUAL(outcount, MPI_UNDEFINED);
  CHECK_MPI(MPI_Testsome(3, nulls, &outcount, indices, MPI_STATUSES_IGNORE));
  CHECK_EQUAL(outcount, MPI_UNDEFINED);
  flag = 0;
  memset(&status, 0x5a, sizeof status);
  CHECK_MPI(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status));
  CHECK(flag);
  expect_empty(&status);
  CHECK_MPI(MPI_Request_get_status_any(3, nulls, &index, &flag, &status));
  CHECK(flag && index == MPI_UNDEFINED);
  CHECK_MPI(MPI_Request_get_status_all(3, nulls, &flag, statuses));
  CHECK(flag);
  CHECK_MPI(MPI_Request_get_status_some(3, nulls, &outcount, indices, statuses));
  CHECK_EQUAL(outcount, MPI_UNDEFINED);
}

static int in[n];

/* Receives of tags 0 .. n-1; nothing is on its way yet. */
static void post(MPI_Request* requests) {
  for (int i = 0; i < n; ++i) {
    in[i] = -1;
    MPI_Irecv(&in[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}
static void send_one(int tag) {
  const int value = rank * 100 + tag;
  MPI_Send(&value, 1, MPI_INT, right, tag, MPI_COMM_WORLD);
}
static void expect_message(int tag, const MPI_Status* status) {
  CHECK_EQUAL(in[tag], left * 100 + tag);
  CHECK_EQUAL(status->MPI_SOURCE, left);
  CHECK_EQUAL(status->MPI_TAG, tag);
}

static void test_any(void) {
  MPI_Request requests[n];
  MPI_Status status;
  int index, flag;
  post(requests);
  CHECK_MPI(MPI_Testany(n, requests, &index, &flag, &status));
  CHECK(!flag);
  CHECK_EQUAL(index, MPI_UNDEFINED);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int k = 0; k < n; ++k) {
    const int tag = (k * 5) % n;
    send_one(tag);
    if (k % 2) {
      CHECK_MPI(MPI_Waitany(n, requests, &index, &status));
    } else {
      for (flag = 0; !flag;)
        CHECK_MPI(MPI_Request_get_status_any(n, requests, &index, &flag, &status));
      CHECK_EQUAL(index, tag);
      expect_message(tag, &status);
      CHECK(requests[tag] != MPI_REQUEST_NULL);
      for (flag = 0; !flag;)
        CHECK_MPI(MPI_Testany(n, requests, &index, &flag, &status));
    }
    CHECK_EQUAL(index, tag);
    CHECK(requests[tag] == MPI_REQUEST_NULL);
    expect_message(tag, &status);
    MPI_Barrier(MPI_COMM_WORLD); /* the left neighbour must not be ahead with the next tag */
  }
  CHECK_MPI(MPI_Waitany(n, requests, &index, &status));
  CHECK_EQUAL(index, MPI_UNDEFINED);
}

static void test_some(int wait) {
  MPI_Request requests[n];
  MPI_Status statuses[n];
  int outcount, indices[n], done = 0, flag;
  post(requests);
  CHECK_MPI(MPI_Testsome(n, requests, &outcount, indices, statuses));
  CHECK_EQUAL(outcount, 0);
  CHECK_MPI(MPI_Request_get_status_some(n, requests, &outcount, indices, statuses));
  CHECK_EQUAL(outcount, 0);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = n - 1; i >= 0; --i)
    send_one(i);
  while (done < n) {
    if (wait)
      CHECK_MPI(MPI_Waitsome(n, requests, &outcount, indices, statuses));
    else
      CHECK_MPI(MPI_Testsome(n, requests, &outcount, indices, statuses));
    CHECK(outcount >= wait && outcount <= n - done);
    for (int i = 0; i < outcount; ++i) {
      CHECK(requests[indices[i]] == MPI_REQUEST_NULL);
      expect_message(indices[i], &statuses[i]);
    }
    done += outcount;
  }
  CHECK_MPI(MPI_Waitsome(n, requests, &outcount, indices, statuses));
  CHECK_EQUAL(outcount, MPI_UNDEFINED);
  /* The entry of a handle as an integer and back. */
  MPI_Irecv(&in[0], 1, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[0]);
  CHECK(MPI_Request_fromint(MPI_Request_toint(requests[0])) == requests[0]);
  send_one(0);
  for (flag = 0; !flag;)
    CHECK_MPI(MPI_Request_get_status_all(n, requests, &flag, statuses));
  expect_message(0, &statuses[0]);
  expect_empty(&statuses[1]);
  CHECK_MPI(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
}

static void test_all(int wait, int ignore) {
  MPI_Request requests[2 * n];
  MPI_Status statuses[2 * n];
  int flag = 1, out[n];
  post(requests);
  for (int i = 0; i < n; ++i)
    requests[n + i] = MPI_REQUEST_NULL;
  CHECK_MPI(MPI_Testall(2 * n, requests, &flag, ignore ? MPI_STATUSES_IGNORE : statuses));
  CHECK(!flag);
  for (int i = 0; i < n; ++i)
    CHECK(requests[i] != MPI_REQUEST_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < n; ++i) {
    out[i] = rank * 100 + i;
    MPI_Isend(&out[i], 1, MPI_INT, right, i, MPI_COMM_WORLD, &requests[n + i]);
  }
  for (int i = 0; i < 2 * n; ++i)
    statuses[i].MPI_ERROR = 1234;
  if (wait)
    CHECK_MPI(MPI_Waitall(2 * n, requests, ignore ? MPI_STATUSES_IGNORE : statuses));
  else
    for (flag = 0; !flag;)
      CHECK_MPI(MPI_Testall(2 * n, requests, &flag, ignore ? MPI_STATUSES_IGNORE : statuses));
  for (int i = 0; i < 2 * n; ++i) {
    CHECK(requests[i] == MPI_REQUEST_NULL);
    if (ignore) continue;
    CHECK_EQUAL(statuses[i].MPI_ERROR, 1234);
    if (i < n) expect_message(i, &statuses[i]);
  }
}

/* One of several messages is too long: MPI_ERR_IN_STATUS, an error in its status alone, data in the others.
 */
static void test_in_status(int function) {
  MPI_Request requests[3];
  MPI_Status statuses[3];
  int data[3][4], flag, outcount, indices[3], code = MPI_SUCCESS, out[4] = {1, 2, 3, 4};
  memset(data, 0, sizeof data);
  for (int i = 0; i < 3; ++i)
    MPI_Irecv(data[i], i == 1 ? 2 : 4, MPI_INT, left, i, MPI_COMM_WORLD, &requests[i]);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 3; ++i)
    MPI_Send(out, 4, MPI_INT, right, i, MPI_COMM_WORLD);
  for (flag = 0; !flag;) /* neither reports nor ends the failed one */
    MPI_Request_get_status(requests[2], &flag, MPI_STATUS_IGNORE);
  if (function == 0) code = MPI_Waitall(3, requests, statuses);
  if (function == 1) {
    for (flag = 0; !flag;)
      code = MPI_Testall(3, requests, &flag, statuses);
  }
  if (function == 2) {
    code = MPI_Waitsome(3, requests, &outcount, indices, statuses);
    CHECK_EQUAL(outcount, 3);
  }
  if (function == 3) code = MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  int error_class;
  MPI_Error_class(code, &error_class);
  CHECK_EQUAL(error_class, MPI_ERR_IN_STATUS);
  for (int i = 0; i < 3; ++i) {
    CHECK(requests[i] == MPI_REQUEST_NULL);
    CHECK_EQUAL(data[i][1], 2);
    CHECK_EQUAL(data[i][3], i == 1 ? 0 : 4);
    if (function == 3) continue;
    MPI_Error_class(statuses[i].MPI_ERROR, &error_class);
    CHECK_EQUAL(error_class, i == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
  }
  CHECK_ERROR(code, MPI_ERR_IN_STATUS, "1 of 3");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  right = (rank + 1) % size;
  left = (rank + size - 1) % size;
  test_null();
  test_any();
  test_some(0);
  MPI_Barrier(MPI_COMM_WORLD);
  test_some(1);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 4; ++i)
    test_all(i & 1, i >> 1);
  for (int function = 0; function < 4; ++function) {
    MPI_Barrier(MPI_COMM_WORLD);
    test_in_status(function);
  }
  MPI_Finalize();
  return 0;
}
