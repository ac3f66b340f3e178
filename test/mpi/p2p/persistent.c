/* Persistent requests: started again and again in every mode, inactive between, freed inactive and active. */
#include "../check.h"

static int rank, size, left, right;

static void expect_empty(const MPI_Status* status) {
  int count;
  CHECK_EQUAL(status->MPI_SOURCE, MPI_ANY_SOURCE);
  CHECK_EQUAL(status->MPI_TAG, MPI_ANY_TAG);
  CHECK_EQUAL(status->MPI_ERROR, MPI_SUCCESS);
  MPI_Get_count(status, MPI_INT, &count);
  CHECK_EQUAL(count, 0);
}

static void test_inactive(MPI_Request* request) {
  const MPI_Request before = *request;
  MPI_Status status;
  int flag = 0, index = 7, outcount = 7;
  memset(&status, 0x5a, sizeof status);
  CHECK_MPI(MPI_Wait(request, &status));
  expect_empty(&status);
  memset(&status, 0x5a, sizeof status);
  CHECK_MPI(MPI_Test(request, &flag, &status));
  CHECK(flag);
  expect_empty(&status);
  CHECK_MPI(MPI_Waitany(1, request, &index, &status));
  CHECK_EQUAL(index, MPI_UNDEFINED);
  CHECK_MPI(MPI_Testsome(1, request, &outcount, &index, &status));
  CHECK_EQUAL(outcount, MPI_UNDEFINED);
  CHECK_MPI(MPI_Request_get_status(*request, &flag, &status));
  CHECK(flag);
  expect_empty(&status);
  CHECK(*request == before);
}

typedef int init_function(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

static void test_mode(init_function* init, int count, int ready) {
  int *out = calloc((size_t)count, sizeof(int)), *in = calloc((size_t)count, sizeof(int));
  MPI_Request requests[2];
  MPI_Status statuses[2];
  CHECK_MPI(init(out, count, MPI_INT, right, 3, MPI_COMM_WORLD, &requests[1]));
  CHECK_MPI(MPI_Recv_init(in, count, MPI_INT, left, 3, MPI_COMM_WORLD, &requests[0]));
  const MPI_Request before[2] = {requests[0], requests[1]};
  test_inactive(&requests[0]);
  test_inactive(&requests[1]);
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < count; ++i)
      out[i] = rank * 1000 + round + i;
    if (ready) {
      CHECK_MPI(MPI_Start(&requests[0]));
      MPI_Barrier(MPI_COMM_WORLD);
      CHECK_MPI(MPI_Start(&requests[1]));
    } else {
      CHECK_MPI(MPI_Startall(2, requests));
    }
    if (round % 2)
      CHECK_MPI(MPI_Waitall(2, requests, statuses));
    else
      for (int i = 0; i < 2; ++i)
        CHECK_MPI(MPI_Wait(&requests[i], &statuses[i]));
    CHECK(requests[0] == before[0] && requests[1] == before[1]);
    CHECK_EQUAL(statuses[0].MPI_SOURCE, left);
    CHECK_EQUAL(statuses[0].MPI_TAG, 3);
    for (int i = 0; i < count; ++i)
      CHECK_EQUAL(in[i], left * 1000 + round + i);
    test_inactive(&requests[0]);
  }
  for (int i = 0; i < 2; ++i) {
    CHECK_MPI(MPI_Request_free(&requests[i]));
    CHECK(requests[i] == MPI_REQUEST_NULL);
  }
  free(out);
  free(in);
}

/* Freed while active: the message arrives all the same. The datatype is freed before the first start. */
static void test_free_active(void) {
  int *out = malloc(sizeof(int) * 200000), in[2] = {-1, -1};
  out[0] = rank;
  out[199998] = rank + 1;
  MPI_Datatype ends;
  MPI_Type_vector(2, 1, 199998, MPI_INT, &ends);
  MPI_Type_commit(&ends);
  MPI_Request request;
  MPI_Send_init(out, 1, ends, right, 8, MPI_COMM_WORLD, &request);
  MPI_Type_free(&ends);
  MPI_Start(&request);
  CHECK_MPI(MPI_Request_free(&request));
  CHECK(request == MPI_REQUEST_NULL);
  CHECK_MPI(MPI_Recv(in, 2, MPI_INT, left, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  CHECK_EQUAL(in[0], left);
  CHECK_EQUAL(in[1], left + 1);
  MPI_Barrier(MPI_COMM_WORLD);
  free(out);
}

static void test_errors(void) {
  int data = 0;
  MPI_Request request, plain;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  CHECK_ERROR(MPI_Send_init(&data, -1, MPI_INT, right, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT,
              "MPI_Send_init: count");
  CHECK_ERROR(MPI_Recv_init(&data, 1, MPI_INT, size, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK, "source");
  MPI_Recv_init(&data, 1, MPI_INT, left, 77, MPI_COMM_WORLD, &request);
  CHECK_ERROR(MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel");
  MPI_Start(&request);
  CHECK_ERROR(MPI_Start(&request), MPI_ERR_REQUEST, "active already");
  CHECK_MPI(MPI_Cancel(&request));
  MPI_Status status;
  int cancelled;
  CHECK_MPI(MPI_Wait(&request, &status));
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(cancelled);
  MPI_Request copy = request;
  CHECK_MPI(MPI_Request_free(&request));
  CHECK_ERROR(MPI_Request_free(&copy), MPI_ERR_REQUEST, "freed");
  CHECK_ERROR(MPI_Start(&copy), MPI_ERR_REQUEST, "MPI_Start");
  MPI_Irecv(&data, 1, MPI_INT, left, 78, MPI_COMM_WORLD, &plain);
  CHECK_ERROR(MPI_Start(&plain), MPI_ERR_REQUEST, "not persistent");
  MPI_Cancel(&plain);
  MPI_Wait(&plain, MPI_STATUS_IGNORE);
  request = MPI_REQUEST_NULL;
  CHECK_ERROR(MPI_Startall(1, &request), MPI_ERR_REQUEST, "array_of_requests[0]");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  right = (rank + 1) % size;
  left = (rank + size - 1) % size;
  const int room = 1 << 20;
  void *buffer = malloc((size_t)room), *detached;
  int detached_size;
  MPI_Buffer_attach(buffer, room);
  static const int counts[] = {1, 1000, 50000};
  for (int i = 0; i < 3; ++i) {
    test_mode(MPI_Send_init, counts[i], 0);
    test_mode(MPI_Ssend_init, counts[i], 0);
    test_mode(MPI_Bsend_init, counts[i], 0);
    test_mode(MPI_Rsend_init, counts[i], 1);
  }
  MPI_Buffer_detach(&detached, &detached_size);
  free(buffer);
  test_free_active();
  test_errors();
  MPI_Finalize();
  return 0;
}
