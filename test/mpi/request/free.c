/* What is freed while it is used lives on until it is not: requests, datatypes and communicators of pending
   operations. And freeing twice is an error, never more. */
#include "../check.h"

static int rank, size, left, right;

/* A receive whose request and communicator are gone still gets its message. */
static void test_orphans(int count) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  int *in = malloc(sizeof(int) * (size_t)count), *out = malloc(sizeof(int) * (size_t)count);
  for (int i = 0; i < count; ++i) {
    in[i] = -1;
    out[i] = rank + i;
  }
  MPI_Request receive, send;
  MPI_Irecv(in, count, MPI_INT, left, 0, comm, &receive);
  CHECK_MPI(MPI_Request_free(&receive));
  CHECK(receive == MPI_REQUEST_NULL);
  MPI_Isend(out, count, MPI_INT, right, 0, comm, &send);
  CHECK_MPI(MPI_Request_free(&send));
  MPI_Comm_free(&comm);
  /* No call tells when it is here; whatever path it takes, it comes with progress. */
  for (int i = 0; i < count; ++i) {
    volatile int* element = &in[i];
    while (*element != left + i) {
      int flag;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  free(in);
  free(out);
}

static void test_datatype(int count) {
  MPI_Datatype type;
  int *in = calloc((size_t)count * 2, sizeof(int)), *out = calloc((size_t)count * 2, sizeof(int));
  for (int i = 0; i < count; ++i)
    out[2 * i] = rank + i;
  MPI_Type_vector(count, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Request requests[2];
  MPI_Irecv(in, 1, type, left, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Issend(out, 1, type, right, 0, MPI_COMM_WORLD, &requests[1]);
  MPI_Type_free(&type);
  CHECK_MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < count; ++i)
    CHECK_EQUAL(in[2 * i], left + i);
  free(in);
  free(out);
}

static void test_twice(void) {
  int in = 0, flag, index;
  MPI_Status status;
  MPI_Request request, copy, several[2];
  MPI_Irecv(&in, 1, MPI_INT, left, 9, MPI_COMM_WORLD, &request);
  copy = request;
  MPI_Cancel(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK_ERROR(MPI_Wait(&copy, &status), MPI_ERR_REQUEST,
              "MPI_Wait: request is a request that has been freed");
  CHECK_ERROR(MPI_Test(&copy, &flag, &status), MPI_ERR_REQUEST, "MPI_Test: request");
  CHECK_ERROR(MPI_Request_free(&copy), MPI_ERR_REQUEST, "MPI_Request_free: request");
  CHECK_ERROR(MPI_Cancel(&copy), MPI_ERR_REQUEST, "MPI_Cancel: request");
  CHECK_ERROR(MPI_Request_get_status(copy, &flag, &status), MPI_ERR_REQUEST,
              "MPI_Request_get_status: request");
  several[0] = MPI_REQUEST_NULL;
  several[1] = copy;
  CHECK_ERROR(MPI_Waitall(2, several, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST,
              "MPI_Waitall: array_of_requests[1]");
  CHECK_ERROR(MPI_Waitany(2, several, &index, &status), MPI_ERR_REQUEST, "array_of_requests[1]");
  CHECK_ERROR(MPI_Testall(2, several, &flag, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST, "array_of_requests[1]");
  CHECK_ERROR(MPI_Testsome(2, several, &flag, &index, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST,
              "array_of_requests[1]");
  /* Its slot is used again: the old handle does not name the new request. */
  MPI_Irecv(&in, 1, MPI_INT, left, 9, MPI_COMM_WORLD, &request);
  CHECK(request != copy);
  CHECK_ERROR(MPI_Cancel(&copy), MPI_ERR_REQUEST, "freed");
  MPI_Cancel(&request);
  CHECK_MPI(MPI_Request_free(&request));
  request = MPI_REQUEST_NULL;
  CHECK_ERROR(MPI_Request_free(&request), MPI_ERR_REQUEST, "MPI_REQUEST_NULL");
  request = (MPI_Request)(intptr_t)0x123456789abcdef;
  CHECK_ERROR(MPI_Wait(&request, &status), MPI_ERR_REQUEST, "MPI_Wait");
  request = (MPI_Request)MPI_COMM_WORLD;
  CHECK_ERROR(MPI_Wait(&request, &status), MPI_ERR_REQUEST, "is a communicator");
  request = (MPI_Request)&in;
  CHECK_ERROR(MPI_Wait(&request, &status), MPI_ERR_REQUEST, "no request");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  right = (rank + 1) % size;
  left = (rank + size - 1) % size;
  static const int counts[] = {1, 100, 10000, 300000};
  for (int i = 0; i < 4; ++i) {
    test_orphans(counts[i]);
    test_datatype(counts[i]);
  }
  test_twice();
  MPI_Finalize();
  return 0;
}
