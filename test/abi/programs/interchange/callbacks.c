/* Part of the interchange program; see main.c. */

#include "interchange.h"

#include <string.h>

static int handler_calls, handler_class;
static MPI_Comm handler_comm;

static void on_error(MPI_Comm* comm, int* code, ...) {
  ++handler_calls;
  handler_comm = *comm;
  handler_class = error_class(*code);
}

void errors(void) {
  int value = rank, code, length;
  char message[MPI_MAX_ERROR_STRING];
  MPI_Errhandler handler, got;
  MPI_Comm comm;
  MPI_Status status;
  MPI_Datatype type = MPI_DATATYPE_NULL;

  OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
  CHECK(got == MPI_ERRORS_ARE_FATAL);
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  OK(MPI_Comm_get_errhandler(comm, &got));
  CHECK(got == MPI_ERRORS_RETURN);
  OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));

#define CLASS_OF(call) record("%s: %d\n", #call, error_class(call))
  CLASS_OF(MPI_Send(&value, 1, MPI_INT, size, 0, comm));
  CLASS_OF(MPI_Send(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm));
  CLASS_OF(MPI_Send(&value, 1, MPI_INT, 0, -7, comm));
  CLASS_OF(MPI_Send(&value, -1, MPI_INT, 0, 0, comm));
  CLASS_OF(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, comm));
  CLASS_OF(MPI_Bcast(&value, 1, MPI_INT, size, comm));
  CLASS_OF(MPI_Allreduce(&value, &value, 1, MPI_INT, MPI_OP_NULL, comm));
  CLASS_OF(MPI_Type_commit(&type));

  {
    int two[2] = {1, 2};
    MPI_Request request;
    OK(MPI_Isend(two, 2, MPI_INT, rank, 2, comm, &request));
    code = MPI_Recv(&value, 1, MPI_INT, rank, 2, comm, &status);
    record("truncated: %d\n", error_class(code));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
  OK(MPI_Error_string(code, message, &length));
  CHECK(length > 0 && length < MPI_MAX_ERROR_STRING && (int)strlen(message) == length);

  OK(MPI_Comm_create_errhandler(on_error, &handler));
  OK(MPI_Comm_set_errhandler(comm, handler));
  OK(MPI_Errhandler_free(&handler));
  CHECK(handler == MPI_ERRHANDLER_NULL);
  MPI_Send(&value, 1, MPI_INT, size + 1, 0, comm); /* what it returns is the library's choice */
  CHECK(handler_calls == 1 && handler_comm == comm);
  record("handler called for %d\n", handler_class);
  OK(MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER));
  CHECK(handler_calls == 2);
  OK(MPI_Comm_free(&comm));
  CHECK(comm == MPI_COMM_NULL);
}

static int copies, deletes, copied_key, state;

static int on_copy(MPI_Comm comm, int key, void* extra_state, void* in, void* out, int* flag) {
  CHECK(comm == MPI_COMM_WORLD && extra_state == &state);
  copied_key = key;
  ++copies;
  *(void**)out = (char*)in + 1;
  *flag = 1;
  return MPI_SUCCESS;
}

static int on_delete(MPI_Comm comm, int key, void* value, void* extra_state) {
  (void)comm;
  CHECK(extra_state == &state && value != NULL && key == copied_key);
  ++deletes;
  return MPI_SUCCESS;
}

void attributes(void) {
  static char place[4];
  void* value;
  int key, dup_key, null_key, flag, *tag_bound;
  MPI_Comm comm;

  OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_bound, &flag));
  CHECK(flag && *tag_bound >= 32767);

  OK(MPI_Comm_create_keyval(on_copy, on_delete, &key, &state));
  OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &dup_key, NULL));
  OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &null_key, NULL));
  OK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, place));
  OK(MPI_Comm_set_attr(MPI_COMM_WORLD, dup_key, place + 2));
  OK(MPI_Comm_set_attr(MPI_COMM_WORLD, null_key, place + 3));
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  CHECK(copies == 1 && copied_key == key);
  OK(MPI_Comm_get_attr(comm, key, &value, &flag));
  CHECK(flag && value == place + 1);
  OK(MPI_Comm_get_attr(comm, dup_key, &value, &flag));
  CHECK(flag && value == place + 2);
  OK(MPI_Comm_get_attr(comm, null_key, &value, &flag));
  CHECK(!flag);
  OK(MPI_Comm_free(&comm));
  CHECK(deletes == 1);
  OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, key));
  OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, dup_key));
  OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, null_key));
  CHECK(deletes == 2);
  OK(MPI_Comm_free_keyval(&key));
  OK(MPI_Comm_free_keyval(&dup_key));
  OK(MPI_Comm_free_keyval(&null_key));
  CHECK(key == MPI_KEYVAL_INVALID);
  record("attributes: %d copied, %d deleted\n", copies, deletes);
}
