/* Attributes of communicators and datatypes: callbacks, their order and errors, predefined values, finalize.
 */
#include "../check.h"

static int copies, deletes, last_deleted, copy_result = MPI_SUCCESS, delete_result = MPI_SUCCESS;
static MPI_Comm seen_comm;
static int seen_extra;

static int copy_increment(MPI_Comm comm, int keyval, void* extra, void* in, void* out, int* flag) {
  (void)keyval;
  seen_comm = comm;
  seen_extra = *(int*)extra;
  ++copies;
  *(void**)out = (char*)in + 1;
  *flag = 1;
  return copy_result;
}
static int on_delete(MPI_Comm comm, int keyval, void* value, void* extra) {
  (void)comm, (void)keyval;
  seen_extra = *(int*)extra;
  ++deletes;
  last_deleted = (int)(intptr_t)value;
  return delete_result;
}
static int type_copy(MPI_Datatype type, int keyval, void* extra, void* in, void* out, int* flag) {
  (void)type, (void)keyval, (void)extra;
  ++copies;
  *(void**)out = in;
  *flag = 1;
  return MPI_SUCCESS;
}
static int type_delete(MPI_Datatype type, int keyval, void* value, void* extra) {
  (void)type, (void)keyval, (void)value, (void)extra;
  ++deletes;
  return MPI_SUCCESS;
}

static void* value_of(int number) {
  return (void*)(intptr_t)number;
}

static void check_value(MPI_Comm comm, int keyval, int expected) {
  void* value = NULL;
  int flag;
  MPI_Comm_get_attr(comm, keyval, &value, &flag);
  CHECK_EQUAL(flag, expected >= 0);
  if (flag) CHECK_EQUAL((intptr_t)value, expected);
}

static void test_predefined(int size) {
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  const MPI_Comm comms[3] = {MPI_COMM_WORLD, MPI_COMM_SELF, copy};
  for (int i = 0; i < 3; ++i) {
    int *value, flag;
    MPI_Comm_get_attr(comms[i], MPI_TAG_UB, &value, &flag);
    CHECK(flag && *value >= 32767);
    MPI_Comm_get_attr(comms[i], MPI_UNIVERSE_SIZE, &value, &flag);
    CHECK(flag && *value >= size);
    MPI_Comm_get_attr(comms[i], MPI_WTIME_IS_GLOBAL, &value, &flag);
    CHECK(flag && (*value == 0 || *value == 1));
    MPI_Comm_get_attr(comms[i], MPI_APPNUM, &value, &flag);
    CHECK(flag && *value == 0);
    MPI_Comm_get_attr(comms[i], MPI_IO, &value, &flag);
    CHECK(flag && *value == MPI_ANY_SOURCE);
    MPI_Comm_get_attr(comms[i], MPI_HOST, &value, &flag);
    CHECK(flag && *value == MPI_PROC_NULL);
    MPI_Comm_get_attr(comms[i], MPI_LASTUSEDCODE, &value, &flag);
    CHECK(flag && *value >= MPI_ERR_LASTCODE);
  }
  /* The largest tag really can be sent. */
  int *tag_ub, flag, number = 1;
  MPI_Comm_get_attr(copy, MPI_TAG_UB, &tag_ub, &flag);
  MPI_Sendrecv(&number, 1, MPI_INT, 0, *tag_ub, &flag, 1, MPI_INT, 0, *tag_ub, MPI_COMM_SELF,
               MPI_STATUS_IGNORE);
  int *last, error_class;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
  MPI_Add_error_class(&error_class);
  CHECK_EQUAL(*last, error_class);
  MPI_Comm_free(&copy);
}

static void test_life(void) {
  MPI_Comm parent, child;
  int key, other, extra = 77;
  copies = deletes = 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  MPI_Comm_create_keyval(copy_increment, on_delete, &key, &extra);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &other, &extra);
  check_value(parent, key, -1);
  MPI_Comm_set_attr(parent, key, value_of(5));
  MPI_Comm_set_attr(parent, other, value_of(6));
  check_value(parent, key, 5);
  MPI_Comm_dup(parent, &child);
  CHECK(copies == 1 && seen_comm == parent && seen_extra == 77);
  check_value(child, key, 6);
  check_value(child, other, -1);
  /* Setting again deletes the old value. */
  seen_extra = 0;
  MPI_Comm_set_attr(child, key, value_of(9));
  CHECK(deletes == 1 && last_deleted == 6 && seen_extra == 77);
  /* A keyval that is freed serves what has it. */
  int freed = key;
  MPI_Comm_free_keyval(&key);
  CHECK_EQUAL(key, MPI_KEYVAL_INVALID);
  MPI_Comm_free(&child);
  CHECK(deletes == 2 && last_deleted == 9);
  MPI_Comm grandchild;
  MPI_Comm_dup(parent, &grandchild);
  CHECK_EQUAL(copies, 2);
  MPI_Comm_free(&grandchild);
  CHECK(deletes == 3 && last_deleted == 6);
  /* Split and create copy nothing. */
  MPI_Comm_split(parent, 0, 0, &child);
  check_value(child, other, -1);
  CHECK_EQUAL(copies, 2);
  MPI_Comm_free(&child);
  MPI_Comm_delete_attr(parent, other);
  CHECK(deletes == 4 && last_deleted == 6);
  check_value(parent, other, -1);
  MPI_Comm_free(&parent);
  CHECK(deletes == 5 && last_deleted == 5);
  MPI_Comm_free_keyval(&other);

  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  void* value;
  int flag, tag_ub = MPI_TAG_UB;
  CHECK_ERROR(MPI_Comm_get_attr(MPI_COMM_WORLD, freed, &value, &flag), MPI_ERR_KEYVAL, "comm_keyval");
  CHECK_ERROR(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, NULL), MPI_ERR_KEYVAL,
              "MPI_KEYVAL_INVALID");
  CHECK_ERROR(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, NULL), MPI_ERR_KEYVAL, "predefined");
  CHECK_ERROR(MPI_Comm_delete_attr(MPI_COMM_WORLD, MPI_TAG_UB), MPI_ERR_KEYVAL, "predefined");
  CHECK_ERROR(MPI_Comm_free_keyval(&tag_ub), MPI_ERR_KEYVAL, "predefined");
  CHECK_ERROR(MPI_Comm_free_keyval(&freed), MPI_ERR_KEYVAL, "");
}

static int refuse_to_copy(MPI_Comm comm, int key, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)key, (void)extra, (void)in, (void)out;
  *flag = 1;
  return MPI_ERR_OTHER;
}

static void test_refused_copy(void) {
  MPI_Comm comm, copy = MPI_COMM_WORLD;
  int key;
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_create_keyval(refuse_to_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  MPI_Comm_set_attr(comm, key, value_of(1));
  CHECK(MPI_Comm_dup(comm, &copy) != MPI_SUCCESS);
  CHECK(copy == MPI_COMM_NULL);
  MPI_Comm_free_keyval(&key);
  MPI_Comm_free(&comm);
}

/* MPI 5.0, section 7.7.2: a freed key lives until its last attribute is deleted, whatever owns that. */
static void test_freed_keyval(void) {
  MPI_Comm first, second, copy;
  int key, extra = 4;
  copies = deletes = 0;
  MPI_Comm_dup(MPI_COMM_SELF, &first);
  MPI_Comm_dup(MPI_COMM_SELF, &second);
  MPI_Comm_set_errhandler(first, MPI_ERRORS_RETURN);
  MPI_Comm_create_keyval(copy_increment, on_delete, &key, &extra);
  MPI_Comm_set_attr(first, key, value_of(5));
  int freed = key;
  MPI_Comm_free_keyval(&key);
  check_value(first, freed, 5);
  check_value(second, freed, -1);
  MPI_Comm_set_attr(first, freed, value_of(6));
  CHECK(deletes == 1 && last_deleted == 5);
  MPI_Comm_set_attr(second, freed, value_of(7));
  MPI_Comm_dup(first, &copy);
  CHECK_EQUAL(copies, 1);
  check_value(copy, freed, 7);
  key = freed;
  /* While it lives it may be freed once more. */
  CHECK_EQUAL(MPI_Comm_free_keyval(&key), MPI_SUCCESS);
  CHECK_EQUAL(key, MPI_KEYVAL_INVALID);
  MPI_Comm_delete_attr(first, freed);
  CHECK(deletes == 2 && last_deleted == 6);
  check_value(first, freed, -1);
  MPI_Comm_free(&second);
  CHECK(deletes == 3 && last_deleted == 7);
  check_value(copy, freed, 7);
  MPI_Comm_delete_attr(copy, freed);
  CHECK_EQUAL(deletes, 4);
  /* That was the last. */
  void* value;
  int flag;
  CHECK_ERROR(MPI_Comm_get_attr(first, freed, &value, &flag), MPI_ERR_KEYVAL, "no living keyval");
  CHECK_ERROR(MPI_Comm_set_attr(first, freed, NULL), MPI_ERR_KEYVAL, "no living keyval");
  MPI_Comm_free(&copy);
  MPI_Comm_free(&first);
  CHECK_EQUAL(deletes, 4);

  MPI_Datatype type, other;
  MPI_Type_create_keyval(type_copy, type_delete, &key, NULL);
  MPI_Type_contiguous(2, MPI_INT, &type);
  MPI_Type_set_attr(type, key, value_of(3));
  freed = key;
  MPI_Type_free_keyval(&key);
  MPI_Type_get_attr(type, freed, &value, &flag);
  CHECK(flag && value == value_of(3));
  MPI_Type_dup(type, &other);
  MPI_Type_set_attr(other, freed, value_of(4));
  CHECK_EQUAL(deletes, 5);
  MPI_Type_delete_attr(type, freed);
  CHECK_EQUAL(deletes, 6);
  MPI_Type_get_attr(other, freed, &value, &flag);
  CHECK(flag && value == value_of(4));
  MPI_Type_free(&other);
  CHECK_EQUAL(deletes, 7);
  CHECK_ERROR(MPI_Type_get_attr(type, freed, &value, &flag), MPI_ERR_KEYVAL, "no living keyval");
  MPI_Type_free(&type);
}

static void test_refusals(void) {
  /* Errors of callbacks are those of the function that called them, and nothing is lost. */
  MPI_Comm parent, child = MPI_COMM_NULL;
  int key, extra = 1;
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
  MPI_Comm_create_keyval(copy_increment, on_delete, &key, &extra);
  MPI_Comm_set_attr(parent, key, value_of(3));
  copy_result = MPI_ERR_OTHER;
  CHECK_ERROR(MPI_Comm_dup(parent, &child), MPI_ERR_OTHER, "");
  CHECK(child == MPI_COMM_NULL);
  copy_result = MPI_SUCCESS;
  delete_result = MPI_ERR_INTERN;
  CHECK_ERROR(MPI_Comm_set_attr(parent, key, value_of(4)), MPI_ERR_INTERN, "");
  CHECK_ERROR(MPI_Comm_delete_attr(parent, key), MPI_ERR_INTERN, "");
  CHECK_ERROR(MPI_Comm_free(&parent), MPI_ERR_INTERN, "");
  CHECK(parent != MPI_COMM_NULL);
  check_value(parent, key, 3);
  delete_result = MPI_SUCCESS;
  MPI_Comm_free(&parent);
  CHECK(parent == MPI_COMM_NULL);
  MPI_Comm_free_keyval(&key);
}

static void test_types(void) {
  MPI_Datatype type, copy;
  int key, comm_key, flag;
  void* value;
  copies = deletes = 0;
  MPI_Type_create_keyval(type_copy, type_delete, &key, NULL);
  MPI_Type_contiguous(3, MPI_INT, &type);
  MPI_Type_set_attr(type, key, value_of(8));
  MPI_Type_dup(type, &copy);
  CHECK_EQUAL(copies, 1);
  MPI_Type_get_attr(copy, key, &value, &flag);
  CHECK(flag && value == value_of(8));
  MPI_Type_free(&copy);
  CHECK_EQUAL(deletes, 1);
  MPI_Type_delete_attr(type, key);
  CHECK_EQUAL(deletes, 2);
  MPI_Type_get_attr(type, key, &value, &flag);
  CHECK(!flag);
  MPI_Type_free(&type);
  /* Predefined types have attributes too. */
  MPI_Type_set_attr(MPI_INT, key, value_of(2));
  MPI_Type_get_attr(MPI_INT, key, &value, &flag);
  CHECK(flag && value == value_of(2));
  MPI_Type_get_attr(MPI_DOUBLE, key, &value, &flag);
  CHECK(!flag);
  MPI_Type_delete_attr(MPI_INT, key);
  /* Keyvals are of one kind of object. */
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL);
  CHECK_ERROR(MPI_Type_set_attr(MPI_INT, comm_key, NULL), MPI_ERR_KEYVAL, "type_keyval");
  CHECK_ERROR(MPI_Comm_set_attr(MPI_COMM_WORLD, key, NULL), MPI_ERR_KEYVAL, "comm_keyval");
  CHECK_ERROR(MPI_Type_set_attr(MPI_DATATYPE_NULL, key, NULL), MPI_ERR_TYPE, "datatype");
  MPI_Comm copied;
  MPI_Comm_set_attr(MPI_COMM_WORLD, comm_key, value_of(12));
  MPI_Comm_dup(MPI_COMM_WORLD, &copied);
  check_value(copied, comm_key, 12);
  MPI_Comm_free(&copied);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, comm_key);
  MPI_Comm_free_keyval(&comm_key);
  MPI_Type_free_keyval(&key);
}

static void test_old_names(void) {
  int key, extra = 5, flag;
  void* value;
  MPI_Comm copy;
  copies = deletes = 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Keyval_create(copy_increment, on_delete, &key, &extra);
  MPI_Attr_put(copy, key, value_of(1));
  MPI_Attr_get(copy, key, &value, &flag);
  CHECK(flag && value == value_of(1));
  MPI_Attr_get(copy, MPI_TAG_UB, &value, &flag);
  CHECK(flag && *(int*)value >= 32767);
  MPI_Attr_delete(copy, key);
  CHECK_EQUAL(deletes, 1);
  MPI_Keyval_free(&key);
  MPI_Comm_free(&copy);
}

static int finalize_order;

static int at_finalize(MPI_Comm comm, int keyval, void* value, void* extra) {
  (void)keyval, (void)extra;
  /* MPI still works, and attributes go in reverse order. */
  int finalized = 1, number = 1, got = 0;
  MPI_Finalized(&finalized);
  CHECK(!finalized);
  CHECK(comm == MPI_COMM_SELF);
  MPI_Sendrecv(&number, 1, MPI_INT, 0, 0, &got, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE);
  CHECK_EQUAL(got, 1);
  CHECK_EQUAL((intptr_t)value, 3 - finalize_order);
  ++finalize_order;
  return MPI_SUCCESS;
}

int main(int argc, char** argv) {
  int size;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test_predefined(size);
  test_life();
  test_freed_keyval();
  test_refused_copy();
  test_refusals();
  test_types();
  test_old_names();
  for (int i = 1; i <= 3; ++i) {
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, value_of(i));
    MPI_Comm_free_keyval(&key);
  }
  MPI_Finalize();
  CHECK_EQUAL(finalize_order, 3);
  return 0;
}
