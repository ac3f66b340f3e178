/* The Sessions Model: before, beside and without the World Model; process sets; communicators from groups;
   levels and error handlers of sessions. */
#include "../check.h"

static int calls;
static void on_error(MPI_Session* session, int* code, ...) {
  (void)session, (void)code;
  ++calls;
}

static void expect_phase(int initialized, int finalized) {
  int flag;
  MPI_Initialized(&flag);
  CHECK_EQUAL(flag, initialized);
  MPI_Finalized(&flag);
  CHECK_EQUAL(flag, finalized);
}

static void expect_info(MPI_Info info, const char* key, const char* expected) {
  char value[64];
  int length = sizeof value, flag;
  CHECK_MPI(MPI_Info_get_string(info, key, &length, value, &flag));
  CHECK(flag);
  if (strcmp(value, expected)) check_failed(__FILE__, __LINE__, expected, value);
}

/* A message around the ring over a communicator that a session made. */
static void use(MPI_Session session, const char* name, const char* tag) {
  MPI_Group group;
  MPI_Comm comm;
  MPI_Info info;
  int rank, size, in = -1;
  char text[16];
  CHECK_MPI(MPI_Group_from_session_pset(session, name, &group));
  CHECK_MPI(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
  CHECK_MPI(MPI_Group_free(&group));
  CHECK_MPI(MPI_Comm_rank(comm, &rank));
  CHECK_MPI(MPI_Comm_size(comm, &size));
  CHECK_MPI(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 1, &in, 1, MPI_INT, (rank + size - 1) % size,
                         1, comm, MPI_STATUS_IGNORE));
  CHECK_EQUAL(in, (rank + size - 1) % size);
  CHECK_MPI(MPI_Session_get_pset_info(session, name, &info));
  snprintf(text, sizeof text, "%d", size);
  expect_info(info, "mpi_size", text);
  CHECK_MPI(MPI_Info_free(&info));
  CHECK_MPI(MPI_Comm_free(&comm));
}

static void test_sets(MPI_Session session) {
  int count = 0, world = 0, self = 0;
  CHECK_MPI(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
  for (int n = 0; n < count; ++n) {
    char name[MPI_MAX_PSET_NAME_LEN], cut[4];
    int length = 0;
    CHECK_MPI(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, NULL));
    CHECK(length > 1 && length <= MPI_MAX_PSET_NAME_LEN);
    CHECK_MPI(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, name));
    CHECK_EQUAL(length, strlen(name) + 1);
    length = sizeof cut;
    CHECK_MPI(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, cut));
    CHECK(!strncmp(cut, name, 3) && cut[3] == '\0');
    world += !strcmp(name, "mpi://WORLD");
    self += !strcmp(name, "mpi://SELF");
  }
  CHECK(world == 1 && self == 1);
  /* They are URIs. */
  use(session, "MPI://self", "small and large letters");
  char name[8];
  int length = sizeof name;
  MPI_Group group;
  CHECK_ERROR(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, count, &length, name), MPI_ERR_ARG,
              "MPI_Session_get_nth_pset: n");
  CHECK_ERROR(MPI_Group_from_session_pset(session, "no such set", &group), MPI_ERR_ARG, "no such set");
}

int main(int argc, char** argv) {
  MPI_Session first, second, third;
  MPI_Info info;
  MPI_Errhandler handler, got;

  /* Without the World Model. */
  expect_phase(0, 0);
  CHECK_MPI(MPI_Info_create(&info));
  CHECK_MPI(MPI_Info_set(info, "thread_level", "MPI_THREAD_FUNNELED"));
  CHECK_MPI(MPI_Session_init(info, MPI_ERRORS_RETURN, &first));
  CHECK_MPI(MPI_Info_free(&info));
  CHECK(first != MPI_SESSION_NULL);
  CHECK(MPI_Session_fromint(MPI_Session_toint(first)) == first);
  expect_phase(0, 0);
  test_sets(first);
  use(first, "mpi://WORLD", "first");
  use(first, "mpi://SELF", "first");
  CHECK_MPI(MPI_Session_get_info(first, &info));
  expect_info(info, "thread_level", "MPI_THREAD_FUNNELED");
  CHECK_MPI(MPI_Info_free(&info));

  /* Error handlers. */
  CHECK_MPI(MPI_Session_get_errhandler(first, &got));
  CHECK(got == MPI_ERRORS_RETURN);
  CHECK_MPI(MPI_Session_create_errhandler(on_error, &handler));
  CHECK_MPI(MPI_Session_set_errhandler(first, handler));
  CHECK_MPI(MPI_Errhandler_free(&handler));
  int n;
  CHECK_EQUAL(MPI_Session_get_num_psets(first, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
  CHECK_EQUAL(calls, 1);
  CHECK_MPI(MPI_Session_call_errhandler(first, MPI_ERR_OTHER));
  CHECK_EQUAL(calls, 2);

  /* Two at a time; then none; then again. */
  CHECK_MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second));
  CHECK_MPI(MPI_Session_finalize(&first));
  CHECK(first == MPI_SESSION_NULL);
  use(second, "mpi://WORLD", "second");
  CHECK_MPI(MPI_Session_finalize(&second));
  CHECK_MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &third));
  use(third, "mpi://WORLD", "third");
  if (argc > 1 && !strcmp(argv[1], "sessions-only")) {
    CHECK_MPI(MPI_Session_finalize(&third));
    return 0;
  }

  /* Beside the World Model, and after it. */
  CHECK_MPI(MPI_Init(&argc, &argv));
  expect_phase(1, 0);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  CHECK_ERROR(MPI_Session_get_num_psets(MPI_SESSION_NULL, MPI_INFO_NULL, &n), MPI_ERR_SESSION,
              "MPI_SESSION_NULL");
  CHECK_ERROR(MPI_Session_finalize(&first), MPI_ERR_SESSION, "MPI_SESSION_NULL");
  CHECK_ERROR(MPI_Session_init(MPI_INFO_NULL, MPI_ERRHANDLER_NULL, &first), MPI_ERR_ERRHANDLER,
              "MPI_ERRHANDLER_NULL");
  use(third, "mpi://WORLD", "third");
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK_MPI(MPI_Finalize());
  expect_phase(1, 1);
  use(third, "mpi://WORLD", "after the world");
  /* A session is given what the process runs at, also without asking. */
  MPI_Session fourth;
  CHECK_MPI(MPI_Info_create(&info));
  CHECK_MPI(MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE"));
  CHECK_MPI(MPI_Session_init(info, MPI_ERRORS_RETURN, &first));
  CHECK_MPI(MPI_Info_set(info, "thread_level", "no such level"));
  CHECK_MPI(MPI_Session_init(info, MPI_ERRORS_RETURN, &second));
  CHECK_MPI(MPI_Info_free(&info));
  CHECK_MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &fourth));
  const MPI_Session sessions[3] = {first, second, fourth};
  for (int i = 0; i < 3; ++i) {
    CHECK_MPI(MPI_Session_get_info(sessions[i], &info));
    expect_info(info, "thread_level", "MPI_THREAD_MULTIPLE");
    CHECK_MPI(MPI_Info_free(&info));
  }
  CHECK_MPI(MPI_Session_finalize(&first));
  CHECK_MPI(MPI_Session_finalize(&second));
  CHECK_MPI(MPI_Session_finalize(&fourth));
  CHECK_MPI(MPI_Session_finalize(&third));
  return 0;
}
