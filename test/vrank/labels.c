/* Names and attributes that a rank gives to predefined datatypes: no other rank of its process has them, and
   no other rank's calls run its callbacks. */
#include <stdio.h>

#include "../mpi/check.h"

static int rank, size;
/* Of this rank: its callbacks count here, whoever calls them. */
static int copies, deletions;

static int on_copy(MPI_Datatype type, int key, void* extra, void* in, void* out, int* flag) {
  (void)key;
  ++copies;
  CHECK(type == MPI_INT && extra == &rank);
  *(void**)out = in;
  *flag = 1;
  return MPI_SUCCESS;
}
static int on_delete(MPI_Datatype type, int key, void* value, void* extra) {
  (void)type, (void)key, (void)value;
  ++deletions;
  CHECK(extra == &rank);
  return MPI_SUCCESS;
}

static void check_name(MPI_Datatype type, const char* wanted) {
  char name[MPI_MAX_OBJECT_NAME];
  int length;
  MPI_Type_get_name(type, name, &length);
  check_counted();
  char why[2 * MPI_MAX_OBJECT_NAME];
  snprintf(why, sizeof why, "is \"%s\", not \"%s\"", name, wanted);
  if (strcmp(name, wanted) != 0) check_failed(__FILE__, __LINE__, "the name", why);
}

static void check_attribute(MPI_Datatype type, int key, const void* wanted) {
  void* value = NULL;
  int flag = -1;
  MPI_Type_get_attr(type, key, &value, &flag);
  CHECK_EQUAL(flag, wanted != NULL);
  CHECK(value == wanted);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int key;
  char integer[32], pair[32];
  snprintf(integer, sizeof integer, "integer of %d", rank);
  snprintf(pair, sizeof pair, "pair of %d", rank);
  MPI_Type_create_keyval(on_copy, on_delete, &key, &rank);

  /* One after the other gets to name its types; all look at theirs after each. */
  for (int turn = 0; turn < size; ++turn) {
    if (turn == rank) {
      check_name(MPI_INT, "MPI_INT");
      MPI_Type_set_name(MPI_INT, integer);
      MPI_Type_set_name(MPI_DOUBLE_INT, pair);
      MPI_Type_set_attr(MPI_INT, key, integer);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    check_name(MPI_INT, rank <= turn ? integer : "MPI_INT");
    check_name(MPI_DOUBLE_INT, rank <= turn ? pair : "MPI_DOUBLE_INT");
    check_name(MPI_DOUBLE, "MPI_DOUBLE");
    check_attribute(MPI_INT, key, rank <= turn ? integer : NULL);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  /* All others duplicate the type, and each runs its own function. */
  for (int turn = 0; turn < size; ++turn) {
    const int before = copies, deleted = deletions;
    MPI_Barrier(MPI_COMM_WORLD);
    if (turn != rank) {
      MPI_Datatype copy;
      MPI_Type_dup(MPI_INT, &copy);
      CHECK_EQUAL(copies, before + 1);
      check_attribute(copy, key, integer);
      check_name(copy, "");
      MPI_Type_free(&copy);
      CHECK_EQUAL(deletions, deleted + 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(copies, before + (turn != rank));
    CHECK_EQUAL(deletions, deleted + (turn != rank));
  }

  /* Who deletes the attribute has deleted its own alone. */
  for (int turn = 0; turn < size; ++turn) {
    const int deleted = deletions;
    MPI_Barrier(MPI_COMM_WORLD);
    if (turn == rank) MPI_Type_delete_attr(MPI_INT, key);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(deletions, deleted + (turn == rank));
    check_attribute(MPI_INT, key, rank <= turn ? NULL : integer);
    if (rank <= turn) {
      MPI_Datatype copy;
      const int before = copies;
      MPI_Type_dup(MPI_INT, &copy);
      CHECK_EQUAL(copies, before);
      MPI_Type_free(&copy);
    }
  }

  /* An error names the type as the standard does, whatever the program calls it. */
  MPI_Datatype type = MPI_INT;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  CHECK_ERROR(MPI_Type_free(&type), MPI_ERR_TYPE, "MPI_INT");
  MPI_Type_free_keyval(&key);
  if (rank == 0) printf("%d ranks, 0 failures\n", size);
  MPI_Finalize();
  return 0;
}
