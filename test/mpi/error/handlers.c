/* Error handlers of the program, who is asked, the life of handles, and classes, codes and strings of the
   program. */
#include "../check.h"

static MPI_Comm seen_comm;
static int seen_code, calls;

static void on_error(MPI_Comm* comm, int* code, ...) {
  seen_comm = *comm;
  seen_code = *code;
  ++calls;
}
static void replaces_itself(MPI_Comm* comm, int* code, ...) {
  (void)code;
  ++calls;
  MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
}
static void on_file_error(MPI_File* file, int* code, ...) {
  (void)file, (void)code;
  ++calls;
}

static void test_own_handler(void) {
  MPI_Errhandler handler, again;
  MPI_Comm copy;
  int data = 0;
  CHECK_MPI(MPI_Comm_create_errhandler(on_error, &handler));
  CHECK(MPI_Errhandler_fromint(MPI_Errhandler_toint(handler)) == handler);
  CHECK_MPI(MPI_Comm_dup(MPI_COMM_SELF, &copy));
  CHECK_MPI(MPI_Comm_set_errhandler(copy, handler));
  CHECK_MPI(MPI_Comm_get_errhandler(copy, &again));
  CHECK(again == handler);
  CHECK_MPI(MPI_Errhandler_free(&again));
  CHECK(again == MPI_ERRHANDLER_NULL);
  /* Freed, it goes on serving its communicator, and can be got again. */
  CHECK_MPI(MPI_Errhandler_free(&handler));
  calls = 0;
  CHECK_EQUAL(MPI_Send(&data, 1, MPI_INT, 5, 0, copy), MPI_ERR_RANK);
  CHECK_EQUAL(calls, 1);
  CHECK(seen_comm == copy);
  CHECK_EQUAL(seen_code, MPI_ERR_RANK);
  CHECK_MPI(MPI_Comm_get_errhandler(copy, &again));
  CHECK_MPI(MPI_Errhandler_free(&again));
  /* The error of a pending operation is raised on its communicator. */
  char in[2], out[4] = "abc";
  MPI_Request request;
  MPI_Irecv(in, 2, MPI_CHAR, 0, 1, copy, &request);
  MPI_Send(out, 4, MPI_CHAR, 0, 1, copy);
  calls = 0;
  CHECK_EQUAL(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
  CHECK_EQUAL(calls, 1);
  CHECK(seen_comm == copy);
  /* A duplicate inherits it. */
  MPI_Comm inherits;
  MPI_Comm_dup(copy, &inherits);
  calls = 0;
  CHECK_EQUAL(MPI_Comm_call_errhandler(inherits, MPI_ERR_OTHER), MPI_SUCCESS);
  CHECK_EQUAL(calls, 1);
  CHECK(seen_comm == inherits);
  CHECK_EQUAL(seen_code, MPI_ERR_OTHER);
  MPI_Comm_free(&inherits);
  MPI_Comm_free(&copy);
}

static void test_replaced_in_callback(void) {
  MPI_Errhandler handler;
  MPI_Comm copy;
  int data = 0;
  MPI_Comm_dup(MPI_COMM_SELF, &copy);
  MPI_Comm_create_errhandler(replaces_itself, &handler);
  MPI_Comm_set_errhandler(copy, handler);
  MPI_Errhandler_free(&handler);
  calls = 0;
  CHECK_EQUAL(MPI_Send(&data, -1, MPI_INT, 0, 0, copy), MPI_ERR_COUNT);
  CHECK_EQUAL(MPI_Send(&data, -1, MPI_INT, 0, 0, copy), MPI_ERR_COUNT);
  CHECK_EQUAL(calls, 1);
  MPI_Comm_free(&copy);
}

static void test_handles(void) {
  MPI_Errhandler first, many[50], freed, file;
  CHECK_MPI(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &first));
  CHECK(first == MPI_ERRORS_RETURN);
  for (int i = 0; i < 50; ++i)
    CHECK_MPI(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &many[i]));
  for (int i = 0; i < 50; ++i)
    CHECK_MPI(MPI_Errhandler_free(&many[i]));
  CHECK_MPI(MPI_Comm_create_errhandler(on_error, &freed));
  MPI_Errhandler copy = freed;
  CHECK_MPI(MPI_Errhandler_free(&freed));
  CHECK_ERROR(MPI_Errhandler_free(&copy), MPI_ERR_ERRHANDLER, "has been freed");
  CHECK_ERROR(MPI_Comm_set_errhandler(MPI_COMM_WORLD, copy), MPI_ERR_ERRHANDLER, "has been freed");
  CHECK_MPI(MPI_File_create_errhandler(on_file_error, &file));
  CHECK_ERROR(MPI_Comm_set_errhandler(MPI_COMM_WORLD, file), MPI_ERR_ERRHANDLER, "another kind of object");
  CHECK_MPI(MPI_File_get_errhandler(MPI_FILE_NULL, &first));
  CHECK(first == MPI_ERRORS_RETURN);
  CHECK_MPI(MPI_File_set_errhandler(MPI_FILE_NULL, file));
  calls = 0;
  CHECK_MPI(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_OTHER));
  CHECK_EQUAL(calls, 1);
  CHECK_MPI(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
  CHECK_MPI(MPI_Errhandler_free(&file));
}

static void expect_string(int code, const char* text) {
  char string[MPI_MAX_ERROR_STRING];
  int length = -1;
  CHECK_MPI(MPI_Error_string(code, string, &length));
  CHECK_EQUAL(length, strlen(string));
  if (!strstr(string, text)) check_failed(__FILE__, __LINE__, text, string);
}

static void test_codes(void) {
  int own_class, code, found, *last_used, flag;
  for (int i = MPI_SUCCESS; i <= MPI_ERR_ABI; ++i) {
    char string[MPI_MAX_ERROR_STRING];
    int length = 0;
    CHECK_MPI(MPI_Error_class(i, &found));
    CHECK_EQUAL(found, i);
    CHECK_MPI(MPI_Error_string(i, string, &length));
    CHECK(length > 0 && length < MPI_MAX_ERROR_STRING);
  }
  expect_string(MPI_ERR_KEYVAL, "MPI_ERR_KEYVAL");
  CHECK_MPI(MPI_Add_error_class(&own_class));
  CHECK(own_class > MPI_ERR_LASTCODE);
  CHECK_MPI(MPI_Add_error_code(own_class, &code));
  CHECK_MPI(MPI_Error_class(code, &found));
  CHECK_EQUAL(found, own_class);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last_used, &flag);
  CHECK(flag);
  CHECK_EQUAL(*last_used, code);
  expect_string(code, "");
  CHECK_MPI(MPI_Add_error_string(code, "the cat is on the keyboard"));
  expect_string(code, "cat");
  CHECK_MPI(MPI_Add_error_string(code, "the dog is on the keyboard"));
  expect_string(code, "dog");
  calls = 0;
  MPI_Comm copy;
  MPI_Errhandler handler;
  MPI_Comm_dup(MPI_COMM_SELF, &copy);
  MPI_Comm_create_errhandler(on_error, &handler);
  MPI_Comm_set_errhandler(copy, handler);
  MPI_Errhandler_free(&handler);
  CHECK_MPI(MPI_Comm_call_errhandler(copy, code));
  CHECK_EQUAL(seen_code, code);
  MPI_Comm_free(&copy);
  CHECK_ERROR(MPI_Remove_error_class(own_class), MPI_ERR_ARG, "still has code");
  CHECK_ERROR(MPI_Remove_error_code(code), MPI_ERR_ARG, "still has a string");
  CHECK_MPI(MPI_Remove_error_string(code));
  CHECK_ERROR(MPI_Remove_error_string(code), MPI_ERR_ARG, "no string");
  CHECK_MPI(MPI_Remove_error_code(code));
  CHECK_ERROR(MPI_Remove_error_code(code), MPI_ERR_ARG, "not added");
  CHECK_MPI(MPI_Remove_error_class(own_class));
  CHECK_ERROR(MPI_Remove_error_class(MPI_ERR_TAG), MPI_ERR_ARG, "predefined");
}

int main(int argc, char** argv) {
  /* Handlers may be made before MPI is. */
  MPI_Errhandler early;
  MPI_Comm_create_errhandler(on_error, &early);
  MPI_Init(&argc, &argv);
  MPI_Errhandler first;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &first);
  CHECK(first == MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&first);
  calls = 0;
  int data = 0;
  /* As programs from before MPI 4.0 have it, which know no handler but this one. */
  CHECK_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, early));
  CHECK_EQUAL(MPI_Send(&data, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM);
  CHECK(calls == 1 && seen_comm == MPI_COMM_WORLD);
  CHECK_MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, early));
  calls = 0;
  CHECK_EQUAL(MPI_Send(&data, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM); /* raised on MPI_COMM_SELF */
  CHECK_EQUAL(calls, 1);
  CHECK(seen_comm == MPI_COMM_SELF);
  MPI_Errhandler_free(&early);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  test_own_handler();
  test_replaced_in_callback();
  test_handles();
  test_codes();
  /* A function that this release lacks says so by name. */
  MPI_Win win;
  CHECK_ERROR(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_UNSUPPORTED_OPERATION,
              "MPI_Win_create");
  MPI_Finalize();
  /* And some functions work after the end. */
  char string[MPI_MAX_ERROR_STRING];
  int length;
  CHECK_MPI(MPI_Error_string(MPI_ERR_TAG, string, &length));
  return 0;
}
