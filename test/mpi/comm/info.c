/* Info objects, which work before MPI_Init and after MPI_Finalize too. */
#include "../check.h"

static void check_string(MPI_Info info, const char* key, int room, const char* expected, int needed) {
  char value[64];
  int length = room, flag;
  memset(value, '?', sizeof value);
  MPI_Info_get_string(info, key, &length, value, &flag);
  CHECK(flag);
  CHECK_EQUAL(length, needed);
  if (room > 0) CHECK(strcmp(value, expected) == 0);
  if (room == 0) CHECK(value[0] == '?');
}

static void test_info(void) {
  MPI_Info info, copy;
  int count, flag, length;
  char key[MPI_MAX_INFO_KEY], value[16];
  MPI_Info_create(&info);
  MPI_Info_get_nkeys(info, &count);
  CHECK_EQUAL(count, 0);
  MPI_Info_set(info, "second", "0123456789");
  MPI_Info_set(info, "first", "");
  MPI_Info_set(info, "second", "abcdef");
  MPI_Info_get_nkeys(info, &count);
  CHECK_EQUAL(count, 2);
  MPI_Info_get_nthkey(info, 0, key);
  CHECK(strcmp(key, "second") == 0);
  MPI_Info_get_nthkey(info, 1, key);
  CHECK(strcmp(key, "first") == 0);

  check_string(info, "second", 64, "abcdef", 7);
  check_string(info, "second", 7, "abcdef", 7);
  check_string(info, "second", 4, "abc", 7);
  check_string(info, "second", 1, "", 7);
  check_string(info, "second", 0, "", 7);
  check_string(info, "first", 4, "", 1);
  length = 16;
  MPI_Info_get_string(info, "third", &length, value, &flag);
  CHECK(!flag && length == 16);

  MPI_Info_get(info, "second", 15, value, &flag);
  CHECK(flag && strcmp(value, "abcdef") == 0);
  MPI_Info_get(info, "second", 2, value, &flag);
  CHECK(flag && strcmp(value, "ab") == 0);
  MPI_Info_get_valuelen(info, "second", &length, &flag);
  CHECK(flag && length == 6);
  MPI_Info_get(info, "third", 15, value, &flag);
  CHECK(!flag);

  MPI_Info_dup(info, &copy);
  MPI_Info_delete(info, "second");
  MPI_Info_get_nkeys(info, &count);
  CHECK_EQUAL(count, 1);
  check_string(copy, "second", 64, "abcdef", 7);
  CHECK(MPI_Info_fromint(MPI_Info_toint(copy)) == copy);
  MPI_Info_free(&copy);
  MPI_Info_free(&info);
  CHECK(info == MPI_INFO_NULL && copy == MPI_INFO_NULL);
}

static int has(MPI_Info info, const char* key, const char* expected) {
  char value[MPI_MAX_INFO_VAL];
  int length = sizeof value, flag;
  MPI_Info_get_string(info, key, &length, value, &flag);
  return flag && (!expected || strcmp(value, expected) == 0);
}

static void test_environment(int argc, char** argv, int size) {
  char text[16];
  snprintf(text, sizeof text, "%d", size);
  if (argc == 1) CHECK(has(MPI_INFO_ENV, "maxprocs", text));
  /* Nobody has asked for a level before the program started. */
  CHECK(!has(MPI_INFO_ENV, "thread_level", NULL));
  MPI_Info info;
  MPI_Info_create_env(argc, argv, &info);
  CHECK(has(info, "command", argv[0]));
  MPI_Info_set(info, "mine", "1"); /* an object like any other */
  MPI_Info_free(&info);
  MPI_Get_hw_resource_info(&info);
  int count;
  MPI_Info_get_nkeys(info, &count);
  CHECK(count > 0);
  MPI_Info_free(&info);
}

static void test_errors(void) {
  MPI_Info info, stale;
  int count, flag;
  char longer[MPI_MAX_INFO_VAL + 2], buffer[4];
  memset(longer, 'k', sizeof longer);
  longer[sizeof longer - 1] = '\0';
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Info_create(&info);
  CHECK_ERROR(MPI_Info_set(info, longer, "1"), MPI_ERR_INFO_KEY, "key");
  CHECK_ERROR(MPI_Info_set(info, NULL, "1"), MPI_ERR_INFO_KEY, "null pointer");
  CHECK_ERROR(MPI_Info_set(info, "", "1"), MPI_ERR_INFO_KEY, "empty");
  CHECK_ERROR(MPI_Info_set(info, "k", longer), MPI_ERR_INFO_VALUE, "value");
  CHECK_ERROR(MPI_Info_set(info, "k", NULL), MPI_ERR_INFO_VALUE, "value");
  CHECK_ERROR(MPI_Info_delete(info, "k"), MPI_ERR_INFO_NOKEY, "\"k\"");
  CHECK_ERROR(MPI_Info_get_nthkey(info, 0, longer), MPI_ERR_ARG, "n is 0");
  CHECK_ERROR(MPI_Info_get(info, "k", -1, buffer, &flag), MPI_ERR_ARG, "valuelen is -1");
  CHECK_ERROR(MPI_Info_get_nkeys(MPI_INFO_NULL, &count), MPI_ERR_INFO, "MPI_INFO_NULL");
  CHECK_ERROR(MPI_Info_set(MPI_INFO_ENV, "k", "1"), MPI_ERR_INFO, "MPI_INFO_ENV");
  CHECK_ERROR(MPI_Info_free(&(MPI_Info){MPI_INFO_ENV}), MPI_ERR_INFO, "MPI_INFO_ENV");
  stale = info;
  MPI_Info_free(&info);
  CHECK_ERROR(MPI_Info_get_nkeys(stale, &count), MPI_ERR_INFO, "");
}

/* What the command line says is there at any time. */
static void test_command(int argc, char** argv) {
  int count;
  MPI_Info_get_nkeys(MPI_INFO_ENV, &count);
  CHECK(count > 0);
  CHECK(has(MPI_INFO_ENV, "command", argv[0]));
  CHECK_EQUAL(has(MPI_INFO_ENV, "argv", argc > 1 ? argv[1] : NULL), argc > 1);
  CHECK(has(MPI_INFO_ENV, "wdir", NULL));
  CHECK(has(MPI_INFO_ENV, "arch", NULL));
  CHECK(has(MPI_INFO_ENV, "host", NULL));
  if (argc > 1) CHECK(has(MPI_INFO_ENV, "maxprocs", argv[1])); /* mpiexec says so, before MPI_Init too */
  CHECK(!has(MPI_INFO_ENV, "soft", NULL) && !has(MPI_INFO_ENV, "file", NULL));
  MPI_Info copy;
  MPI_Info_dup(MPI_INFO_ENV, &copy);
  CHECK(has(copy, "command", argv[0]));
  MPI_Info_free(&copy);
  MPI_Info_create_env(0, NULL, &copy);
  CHECK(has(copy, "command", argv[0]));
  MPI_Info_free(&copy);
  char* other[] = {"one", "two", "three", NULL};
  MPI_Info_create_env(3, other, &copy);
  CHECK(has(copy, "command", "one") && has(copy, "argv", "two three"));
  MPI_Info_free(&copy);
  MPI_Info_create_env(1, other, &copy);
  CHECK(!has(copy, "argv", NULL));
  MPI_Info_free(&copy);
}

int main(int argc, char** argv) {
  test_info();
  test_command(argc, argv);
  CHECK(!has(MPI_INFO_ENV, "thread_level", NULL));
  int size, provided;
  /* What was asked for, not what is provided: the process runs at a higher level already. */
  MPI_Info high;
  MPI_Session session;
  MPI_Info_create(&high);
  MPI_Info_set(high, "thread_level", "MPI_THREAD_MULTIPLE");
  MPI_Session_init(high, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Info_free(&high);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  CHECK_EQUAL(provided, MPI_THREAD_MULTIPLE);
  MPI_Session_finalize(&session);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test_info();
  test_environment(argc, argv, size);
  test_errors();
  MPI_Finalize();
  test_info();
  test_command(argc, argv);
  return 0;
}
