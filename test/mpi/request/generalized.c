/* Generalized requests: callbacks, statuses, cancelling and freeing, alone and among messages. */
#include "../check.h"

struct state {
  int queries, frees, cancels, cancelled_complete, query_result;
};

static int query(void* extra, MPI_Status* status) {
  struct state* state = extra;
  ++state->queries;
  MPI_Status_set_elements(status, MPI_INT, 5);
  MPI_Status_set_cancelled(status, state->cancels > 0);
  MPI_Status_set_source(status, 3);
  MPI_Status_set_tag(status, 4);
  return state->query_result;
}
static int release(void* extra) {
  ++((struct state*)extra)->frees;
  return MPI_SUCCESS;
}
static int cancel(void* extra, int complete) {
  struct state* state = extra;
  ++state->cancels;
  state->cancelled_complete = complete;
  return MPI_SUCCESS;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  struct state state = {0};
  MPI_Request request, copy, several[2];
  MPI_Status status, statuses[2];
  int flag = 1, count, rank, in = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);

  CHECK_MPI(MPI_Grequest_start(query, release, cancel, &state, &request));
  CHECK_MPI(MPI_Test(&request, &flag, &status));
  CHECK(!flag);
  CHECK_EQUAL(state.queries, 0);
  CHECK_MPI(MPI_Grequest_complete(request));
  CHECK_ERROR(MPI_Grequest_complete(request), MPI_ERR_REQUEST, "complete already");
  CHECK_MPI(MPI_Request_get_status(request, &flag, &status));
  CHECK(flag);
  CHECK_EQUAL(state.queries, 1);
  CHECK_EQUAL(state.frees, 0);
  CHECK_MPI(MPI_Wait(&request, &status));
  CHECK(request == MPI_REQUEST_NULL);
  CHECK_EQUAL(state.queries, 2);
  CHECK_EQUAL(state.frees, 1);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK_EQUAL(count, 5);
  CHECK_EQUAL(status.MPI_SOURCE, 3);
  CHECK_EQUAL(status.MPI_TAG, 4);

  /* Cancelling asks the program; the request completes when the program says so. */
  memset(&state, 0, sizeof state);
  MPI_Grequest_start(query, release, cancel, &state, &request);
  CHECK_MPI(MPI_Cancel(&request));
  CHECK_EQUAL(state.cancels, 1);
  CHECK_EQUAL(state.cancelled_complete, 0);
  MPI_Grequest_complete(request);
  CHECK_MPI(MPI_Wait(&request, &status));
  MPI_Test_cancelled(&status, &flag);
  CHECK(flag);

  /* Freed before it is complete: the free callback waits for that. */
  memset(&state, 0, sizeof state);
  MPI_Grequest_start(query, release, cancel, &state, &request);
  copy = request;
  CHECK_MPI(MPI_Request_free(&request));
  CHECK_EQUAL(state.frees, 0);
  CHECK_MPI(MPI_Grequest_complete(copy));
  CHECK_EQUAL(state.frees, 1);
  CHECK_EQUAL(state.queries, 0);
  CHECK_ERROR(MPI_Grequest_complete(copy), MPI_ERR_REQUEST, "freed");
  memset(&state, 0, sizeof state);
  MPI_Grequest_start(query, release, cancel, &state, &request);
  MPI_Grequest_complete(request);
  CHECK_MPI(MPI_Request_free(&request));
  CHECK_EQUAL(state.frees, 1);

  /* Among messages; and the error of the query callback is that of the operation. */
  memset(&state, 0, sizeof state);
  state.query_result = MPI_ERR_OTHER;
  MPI_Grequest_start(query, release, cancel, &state, &several[0]);
  MPI_Grequest_complete(several[0]);
  MPI_Irecv(&in, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &several[1]);
  MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
  CHECK_EQUAL(MPI_Waitall(2, several, statuses), MPI_ERR_IN_STATUS);
  CHECK_EQUAL(statuses[0].MPI_ERROR, MPI_ERR_OTHER);
  CHECK_EQUAL(statuses[1].MPI_ERROR, MPI_SUCCESS);
  CHECK_EQUAL(in, rank);
  CHECK_EQUAL(state.frees, 1);

  MPI_Irecv(&in, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request);
  CHECK_ERROR(MPI_Grequest_complete(request), MPI_ERR_REQUEST, "not a generalized request");
  MPI_Cancel(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return 0;
}
