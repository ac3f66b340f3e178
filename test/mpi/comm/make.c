/* Making intracommunicators: dup, create, create_group, split; that their messages stay apart; names, hints,
 * errors. */
#include "../check.h"

static int world_rank, world_size;

/* Every rank learns every other's number in world over `comm`: proves that members, ranks and both contexts
 * agree. */
static void check_members(MPI_Comm comm, const int* expected, int count) {
  int size, rank;
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(comm, &rank);
  CHECK_EQUAL(size, count);
  CHECK_EQUAL(expected[rank], world_rank);
  int* all = malloc(sizeof(int) * (size_t)size);
  MPI_Allgather(&world_rank, 1, MPI_INT, all, 1, MPI_INT, comm);
  for (int i = 0; i < size; ++i)
    CHECK_EQUAL(all[i], expected[i]);
  int from = -1, next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Sendrecv(&world_rank, 1, MPI_INT, next, 5, &from, 1, MPI_INT, previous, 5, comm, MPI_STATUS_IGNORE);
  CHECK_EQUAL(from, expected[previous]);
  free(all);
}

/* The same envelope in two communicators: receives find the message of their own, whatever came first. */
static void check_apart(MPI_Comm first, MPI_Comm second) {
  int size, rank, one = 1, two = 2, got = 0;
  MPI_Comm_size(first, &size);
  MPI_Comm_rank(first, &rank);
  if (size < 2 || rank > 1) return;
  if (rank == 0) {
    MPI_Send(&one, 1, MPI_INT, 1, 7, first);
    MPI_Send(&two, 1, MPI_INT, 1, 7, second);
  } else {
    MPI_Recv(&got, 1, MPI_INT, 0, 7, second, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, 2);
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, first, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, 1);
  }
}

static void test_dup(const int* everyone) {
  MPI_Comm copy, copy_of_copy;
  int result;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  check_members(copy, everyone, world_size);
  MPI_Comm_dup(copy, &copy_of_copy);
  check_members(copy_of_copy, everyone, world_size);
  check_apart(MPI_COMM_WORLD, copy);
  check_apart(copy, copy_of_copy);
  MPI_Comm_compare(MPI_COMM_WORLD, copy, &result);
  CHECK_EQUAL(result, MPI_CONGRUENT);
  MPI_Comm_compare(copy, copy, &result);
  CHECK_EQUAL(result, MPI_IDENT);
  MPI_Comm_compare(copy, MPI_COMM_SELF, &result);
  CHECK_EQUAL(result, world_size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);
  MPI_Comm_free(&copy);
  CHECK(copy == MPI_COMM_NULL);
  check_members(copy_of_copy, everyone, world_size);
  MPI_Comm_disconnect(&copy_of_copy);
  CHECK(copy_of_copy == MPI_COMM_NULL);
}

static void test_split(void) {
  int* expected = malloc(sizeof(int) * (size_t)world_size);
  MPI_Comm part;
  /* Two colours, in reverse order. */
  MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &part);
  int count = 0;
  for (int i = world_size - 1; i >= 0; --i)
    if (i % 2 == world_rank % 2) expected[count++] = i;
  check_members(part, expected, count);
  int result;
  MPI_Comm_compare(MPI_COMM_WORLD, part, &result);
  CHECK_EQUAL(result, world_size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);
  /* A part of a part. */
  MPI_Comm half;
  int part_rank;
  MPI_Comm_rank(part, &part_rank);
  MPI_Comm_split(part, part_rank < (count + 1) / 2 ? 0 : 9, 0, &half);
  const int first = part_rank < (count + 1) / 2 ? 0 : (count + 1) / 2;
  const int length = part_rank < (count + 1) / 2 ? (count + 1) / 2 : count / 2;
  check_members(half, expected + first, length);
  MPI_Comm_free(&half);
  MPI_Comm_free(&part);
  /* Some take no part. Equal keys leave the order of ranks. */
  MPI_Comm_split(MPI_COMM_WORLD, world_rank == 0 ? MPI_UNDEFINED : 3, 1, &part);
  if (world_rank == 0) {
    CHECK(part == MPI_COMM_NULL);
  } else {
    for (int i = 1; i < world_size; ++i)
      expected[i - 1] = i;
    check_members(part, expected, world_size - 1);
    MPI_Comm_free(&part);
  }
  MPI_Comm_split(MPI_COMM_WORLD, MPI_UNDEFINED, 0, &part);
  CHECK(part == MPI_COMM_NULL);
  free(expected);
}

static void test_create(void) {
  int* expected = malloc(sizeof(int) * (size_t)world_size);
  MPI_Group world, mine;
  MPI_Comm made;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  /* Disjoint groups at once: the lower and the upper half, the upper one backwards. */
  const int middle = (world_size + 1) / 2, lower = world_rank < middle;
  int range[1][3] = {{lower ? 0 : world_size - 1, lower ? middle - 1 : middle, lower ? 1 : -1}};
  MPI_Group_range_incl(world, 1, range, &mine);
  int count = 0;
  for (int i = range[0][0]; lower ? i < middle : i >= middle; i += range[0][2])
    expected[count++] = i;
  MPI_Comm_create(MPI_COMM_WORLD, mine, &made);
  check_members(made, expected, count);
  MPI_Comm_free(&made);
  /* The members alone. */
  for (int tag = 0; tag < 3; ++tag) {
    MPI_Comm_create_group(MPI_COMM_WORLD, mine, tag, &made);
    check_members(made, expected, count);
    MPI_Comm_free(&made);
  }
  MPI_Group_free(&mine);
  /* One group; the rest is told MPI_COMM_NULL. */
  int last = world_size - 1;
  MPI_Group_incl(world, 1, &last, &mine);
  MPI_Comm_create(MPI_COMM_WORLD, mine, &made);
  CHECK((made != MPI_COMM_NULL) == (world_rank == last));
  if (made != MPI_COMM_NULL) {
    check_members(made, &last, 1);
    MPI_Comm_free(&made);
  }
  MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &made);
  CHECK(made == MPI_COMM_NULL);
  MPI_Group_free(&mine);
  MPI_Group_free(&world);
  free(expected);
}

static void test_names(void) {
  char name[MPI_MAX_OBJECT_NAME], longer[2 * MPI_MAX_OBJECT_NAME];
  int length;
  MPI_Comm copy;
  MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
  CHECK(strcmp(name, "MPI_COMM_WORLD") == 0 && length == 14);
  MPI_Comm_get_name(MPI_COMM_SELF, name, &length);
  CHECK(strcmp(name, "MPI_COMM_SELF") == 0);
  MPI_Comm_get_name(MPI_COMM_NULL, name, &length);
  CHECK(strcmp(name, "MPI_COMM_NULL") == 0);
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_get_name(copy, name, &length);
  CHECK(length == 0 && name[0] == '\0');
  MPI_Comm_set_name(copy, " halo ");
  MPI_Comm_get_name(copy, name, &length);
  CHECK(strcmp(name, " halo ") == 0 && length == 6);
  memset(longer, 'x', sizeof longer);
  longer[sizeof longer - 1] = '\0';
  MPI_Comm_set_name(copy, longer);
  MPI_Comm_get_name(copy, name, &length);
  CHECK_EQUAL(length, MPI_MAX_OBJECT_NAME - 1);
  MPI_Comm_free(&copy);
}

static void check_hint(MPI_Comm comm, const char* key, const char* expected) {
  MPI_Info info;
  char value[8] = "";
  int length = sizeof value, flag;
  MPI_Comm_get_info(comm, &info);
  MPI_Info_get_string(info, key, &length, value, &flag);
  CHECK_EQUAL(flag, expected != NULL);
  if (expected) CHECK(strcmp(value, expected) == 0);
  MPI_Info_free(&info);
}

static void test_hints(void) {
  MPI_Info info;
  MPI_Comm with, copy, without;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
  MPI_Info_set(info, "mpi_assert_no_any_source", "perhaps");
  MPI_Info_set(info, "some_other_library", "true");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &with);
  check_hint(with, "mpi_assert_no_any_tag", "true");
  check_hint(with, "mpi_assert_no_any_source", NULL);
  check_hint(with, "some_other_library", NULL);
  check_hint(MPI_COMM_WORLD, "mpi_assert_no_any_tag", NULL);
  /* MPI 4.0 and later: duplicates inherit no hints (section 7.4.2). */
  MPI_Comm_dup(with, &copy);
  check_hint(copy, "mpi_assert_no_any_tag", NULL);
  MPI_Comm_dup_with_info(with, MPI_INFO_NULL, &without);
  check_hint(without, "mpi_assert_no_any_tag", NULL);
  MPI_Info_set(info, "mpi_assert_no_any_tag", "false");
  MPI_Comm_set_info(copy, info);
  check_hint(copy, "mpi_assert_no_any_tag", "false");
  check_hint(with, "mpi_assert_no_any_tag", "true");
  MPI_Info_free(&info);
  MPI_Comm_free(&with);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&without);
}

static void test_pending(void) {
  /* A freed communicator serves the operations that were begun on it. */
  MPI_Comm copy;
  MPI_Request request;
  int out = world_rank, in = -1;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  const int next = (world_rank + 1) % world_size, previous = (world_rank + world_size - 1) % world_size;
  MPI_Irecv(&in, 1, MPI_INT, previous, 0, copy, &request);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Send(&out, 1, MPI_INT, next, 0, copy);
  MPI_Comm_free(&copy);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK_EQUAL(in, previous);
}

static int handled;

static void count_error(MPI_Comm* comm, int* code, ...) {
  (void)comm, (void)code;
  ++handled;
}

static void test_errhandler(void) {
  /* New communicators inherit the handler of the one they come from, and keep it when that is gone. */
  MPI_Comm parent, child, made;
  MPI_Errhandler handler;
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  MPI_Comm_create_errhandler(count_error, &handler);
  MPI_Comm_set_errhandler(parent, handler);
  MPI_Errhandler_free(&handler);
  MPI_Comm_split(parent, 0, 0, &child);
  MPI_Comm_free(&parent);
  MPI_Comm_split(child, -5, 0, &made);
  CHECK_EQUAL(handled, 1);
  MPI_Comm_free(&child);
}

static void test_errors(void) {
  MPI_Comm copy, made, stale;
  MPI_Group world;
  int value;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  CHECK_ERROR(MPI_Comm_size(MPI_COMM_NULL, &value), MPI_ERR_COMM, "MPI_Comm_size");
  CHECK_ERROR(MPI_Comm_rank(copy, NULL), MPI_ERR_ARG, "rank");
  CHECK_ERROR(MPI_Comm_free(&(MPI_Comm){MPI_COMM_WORLD}), MPI_ERR_COMM, "MPI_COMM_WORLD");
  CHECK_ERROR(MPI_Comm_free(&(MPI_Comm){MPI_COMM_SELF}), MPI_ERR_COMM, "MPI_COMM_SELF");
  CHECK_ERROR(MPI_Comm_free(NULL), MPI_ERR_COMM, "MPI_Comm_free");
  CHECK_ERROR(MPI_Comm_split(copy, -5, 0, &made), MPI_ERR_ARG, "color is -5");
  CHECK_ERROR(MPI_Comm_split(copy, 0, 0, NULL), MPI_ERR_ARG, "newcomm");
  CHECK_ERROR(MPI_Comm_create(copy, MPI_GROUP_NULL, &made), MPI_ERR_GROUP, "group");
  CHECK_ERROR(MPI_Comm_create_group(copy, world, -1, &made), MPI_ERR_TAG, "-1");
  CHECK_ERROR(MPI_Comm_set_name(copy, NULL), MPI_ERR_ARG, "comm_name");
  CHECK_ERROR(MPI_Comm_remote_size(copy, &value), MPI_ERR_COMM, "intercommunicator");
  CHECK_ERROR(MPI_Comm_compare(copy, MPI_COMM_NULL, &value), MPI_ERR_COMM, "comm2");
  CHECK_ERROR(MPI_Comm_split_type(copy, 12345, 0, MPI_INFO_NULL, &made), MPI_ERR_ARG, "split_type");
  if (world_size > 1) CHECK_ERROR(MPI_Comm_create(MPI_COMM_SELF, world, &made), MPI_ERR_GROUP, "group");
  CHECK(MPI_Comm_fromint(MPI_Comm_toint(copy)) == copy);
  CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
  stale = copy;
  MPI_Comm_free(&copy);
  CHECK_ERROR(MPI_Comm_size(stale, &value), MPI_ERR_COMM, "");
  CHECK_ERROR(MPI_Comm_free(&stale), MPI_ERR_COMM, "");
  MPI_Group_free(&world);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  int* everyone = malloc(sizeof(int) * (size_t)world_size);
  for (int i = 0; i < world_size; ++i)
    everyone[i] = i;
  check_members(MPI_COMM_WORLD, everyone, world_size);
  check_members(MPI_COMM_SELF, &world_rank, 1);
  test_dup(everyone);
  test_split();
  test_create();
  test_names();
  test_hints();
  test_pending();
  test_errhandler();
  test_errors();
  free(everyone);
  MPI_Finalize();
  return 0;
}
