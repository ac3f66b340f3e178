/* Requests of collectives that are used wrongly: the class that the standard names, and the collective goes
 * on. ranks: 1 2 3 */
#include "../check.h"

static int rank, size;

/* Neither nonblocking ones nor persistent ones that are under way may be freed or cancelled (MPI 5.0,
 * section 6.12). */
static void freed_or_cancelled(MPI_Comm comm) {
  int in = rank, out = -1, flag = 0;
  MPI_Request request, copy;
  CHECK_MPI(MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm, &request));
  copy = request;
  CHECK_ERROR(MPI_Cancel(&request), MPI_ERR_REQUEST, "cancel");
  CHECK_ERROR(MPI_Request_free(&request), MPI_ERR_REQUEST, "collective");
  CHECK_ERROR(MPI_Start(&request), MPI_ERR_REQUEST, "persistent");
  CHECK(request == copy);
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK_EQUAL(out, size * (size - 1) / 2);
  CHECK_ERROR(MPI_Wait(&copy, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "request");
  CHECK_ERROR(MPI_Test(&copy, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "request");
}

/* Alone, a collective is over when its call returns: its request is one like others until it is waited for.
 */
static void over_at_once(void) {
  int in = 7, out[3] = {-1, -1, -1}, flag = 0, index = -1, count = -1;
  MPI_Request requests[3], copy;
  MPI_Status status, statuses[3];
  int i;
  for (i = 0; i < 3; ++i)
    CHECK_MPI(MPI_Iallreduce(&in, &out[i], 1, MPI_INT, MPI_SUM, MPI_COMM_SELF, &requests[i]));
  CHECK(requests[0] != requests[1] && requests[0] != MPI_REQUEST_NULL);
  CHECK_MPI(MPI_Request_get_status(requests[0], &flag, &status));
  CHECK(flag);
  CHECK_ERROR(MPI_Cancel(&requests[0]), MPI_ERR_REQUEST, "cancel");
  CHECK_ERROR(MPI_Request_free(&requests[0]), MPI_ERR_REQUEST, "collective");
  CHECK_ERROR(MPI_Start(&requests[0]), MPI_ERR_REQUEST, "persistent");
  CHECK_ERROR(MPI_Grequest_complete(requests[0]), MPI_ERR_REQUEST, "generalized");
  copy = requests[0];
  CHECK_MPI(MPI_Wait(&requests[0], &status));
  CHECK(requests[0] == MPI_REQUEST_NULL);
  CHECK_MPI(MPI_Get_count(&status, MPI_INT, &count));
  CHECK_EQUAL(count, 0);
  CHECK_MPI(MPI_Test_cancelled(&status, &flag));
  CHECK(!flag);
  CHECK_ERROR(MPI_Wait(&copy, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "request");
  CHECK_MPI(MPI_Waitany(3, requests, &index, &status));
  CHECK_EQUAL(index, 1);
  CHECK_MPI(MPI_Ibarrier(MPI_COMM_SELF, &requests[0]));
  CHECK_MPI(MPI_Ibcast(&in, 1, MPI_INT, 0, MPI_COMM_SELF, &requests[1]));
  CHECK_MPI(MPI_Testall(3, requests, &flag, statuses));
  CHECK(flag);
  for (i = 0; i < 3; ++i)
    CHECK(requests[i] == MPI_REQUEST_NULL && out[i] == 7);
}

static void persistent_started_twice(MPI_Comm comm) {
  int in = rank, out = -1, flag = 0;
  MPI_Request request;
  CHECK_MPI(MPI_Allreduce_init(&in, &out, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request));
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE)); /* inactive: at once */
  CHECK_MPI(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
  CHECK(flag);
  CHECK_ERROR(MPI_Cancel(&request), MPI_ERR_REQUEST, "not active");
  CHECK_MPI(MPI_Start(&request));
  CHECK_ERROR(MPI_Start(&request), MPI_ERR_REQUEST, "active");
  CHECK_ERROR(MPI_Request_free(&request), MPI_ERR_REQUEST, "collective");
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK_EQUAL(out, size * (size - 1) / 2);
  CHECK_MPI(MPI_Request_free(&request));
  CHECK(request == MPI_REQUEST_NULL);
  CHECK_ERROR(MPI_Start(&request), MPI_ERR_REQUEST, "request");
}

static void wrong_arguments(MPI_Comm comm) {
  int word = 0, all[16];
  MPI_Request request = MPI_REQUEST_NULL;
  CHECK_ERROR(MPI_Ibcast(&word, 1, MPI_INT, size, comm, &request), MPI_ERR_ROOT, "MPI_Ibcast");
  CHECK_ERROR(MPI_Ibcast(&word, -1, MPI_INT, 0, comm, &request), MPI_ERR_COUNT, "count");
  CHECK_ERROR(MPI_Ibcast(&word, 1, MPI_DATATYPE_NULL, 0, comm, &request), MPI_ERR_TYPE, "datatype");
  CHECK_ERROR(MPI_Iallreduce(&word, &word, 1, MPI_INT, MPI_SUM, comm, &request), MPI_ERR_BUFFER,
              "MPI_IN_PLACE");
  CHECK_ERROR(MPI_Iallreduce(&word, all, 1, MPI_INT, MPI_OP_NULL, comm, &request), MPI_ERR_OP, "");
  CHECK_ERROR(MPI_Iallreduce(&word, all, 1, MPI_INT, MPI_SUM, comm, NULL), MPI_ERR_ARG, "request");
  CHECK_ERROR(MPI_Ireduce(&word, all, 1, MPI_INT, MPI_SUM, -1, comm, &request), MPI_ERR_ROOT, "root");
  CHECK_ERROR(MPI_Ialltoallv(all, NULL, all, MPI_INT, &word, all, all, MPI_INT, comm, &request), MPI_ERR_ARG,
              "sendcounts");
  CHECK_ERROR(MPI_Ibarrier(MPI_COMM_NULL, &request), MPI_ERR_COMM, "");
  CHECK_ERROR(MPI_Barrier_init(comm, MPI_INFO_NULL, NULL), MPI_ERR_ARG, "request");
  CHECK_ERROR(MPI_Bcast_init(&word, 1, MPI_INT, -7, comm, MPI_INFO_NULL, &request), MPI_ERR_ROOT, "root");
  CHECK(request == MPI_REQUEST_NULL);
}

/* Ranks that disagree on the number of bytes: those that notice are told, and no one waits for ever. */
static void sizes_that_differ(MPI_Comm comm) {
  int word[4] = {rank, 0, 0, 0};
  MPI_Request request;
  if (size == 1) return;
  CHECK_MPI(MPI_Ibcast(word, rank == 0 ? 4 : 2, MPI_INT, 0, comm, &request));
  if (rank == 0)
    CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  else if (rank == 1)
    CHECK_ERROR(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, "bytes");
  else
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(request == MPI_REQUEST_NULL);
  MPI_Barrier(comm);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  freed_or_cancelled(MPI_COMM_WORLD);
  over_at_once();
  persistent_started_twice(MPI_COMM_WORLD);
  wrong_arguments(MPI_COMM_WORLD);
  sizes_that_differ(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
