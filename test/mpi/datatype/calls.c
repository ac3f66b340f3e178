/* ranks: 1
   Datatypes as programs see them: sizes and extents in every form, names, duplicates with attributes, what
   freeing and committing mean, and the error class of every wrong argument. */
#include "../check.h"

static void sizes(void) {
  MPI_Datatype vector, huge;
  int size;
  MPI_Count count, lb_c, extent_c;
  MPI_Aint lb, extent;
  CHECK_MPI(MPI_Type_vector(3, 2, 4, MPI_INT, &vector));
  CHECK_MPI(MPI_Type_size(vector, &size));
  CHECK_EQUAL(size, 24);
  CHECK_MPI(MPI_Type_get_extent(vector, &lb, &extent));
  CHECK_EQUAL(lb, 0);
  CHECK_EQUAL(extent, 40);
  CHECK_MPI(MPI_Type_contiguous_c(5000000000, vector, &huge));
  CHECK_MPI(MPI_Type_size(huge, &size));
  CHECK_EQUAL(size, MPI_UNDEFINED);
  CHECK_MPI(MPI_Type_size_c(huge, &count));
  CHECK_EQUAL(count, 120000000000);
  CHECK_MPI(MPI_Type_size_x(huge, &count));
  CHECK_EQUAL(count, 120000000000);
  CHECK_MPI(MPI_Type_get_extent_c(huge, &lb_c, &extent_c));
  CHECK_EQUAL(extent_c, 200000000000);
  CHECK_MPI(MPI_Type_free(&huge));

  CHECK_MPI(MPI_Type_create_resized(vector, -8, 100, &huge));
  CHECK_MPI(MPI_Type_get_extent_x(huge, &lb_c, &extent_c));
  CHECK_EQUAL(lb_c, -8);
  CHECK_EQUAL(extent_c, 100);
  CHECK_MPI(MPI_Type_get_true_extent(huge, &lb, &extent));
  CHECK_EQUAL(lb, 0);
  CHECK_EQUAL(extent, 40);
  CHECK_MPI(MPI_Type_free(&huge));
  CHECK_EQUAL(huge == MPI_DATATYPE_NULL, 1);
  CHECK_MPI(MPI_Type_free(&vector));
}

static void addresses(void) {
  struct {
    int a;
    double b;
  } object = {0, 0};
  MPI_Aint a, b;
  CHECK_MPI(MPI_Get_address(&object.a, &a));
  CHECK_MPI(MPI_Get_address(&object.b, &b));
  CHECK_EQUAL(MPI_Aint_diff(b, a), (char*)&object.b - (char*)&object.a);
  CHECK_EQUAL(MPI_Aint_add(a, MPI_Aint_diff(b, a)), b);
}

static void names(void) {
  char name[MPI_MAX_OBJECT_NAME], much[3 * MPI_MAX_OBJECT_NAME];
  int length;
  MPI_Datatype type;
  CHECK_MPI(MPI_Type_get_name(MPI_DOUBLE_INT, name, &length));
  CHECK(strcmp(name, "MPI_DOUBLE_INT") == 0);
  CHECK_EQUAL(length, strlen(name));
  CHECK_MPI(MPI_Type_get_name(MPI_DATATYPE_NULL, name, &length));
  CHECK(strcmp(name, "MPI_DATATYPE_NULL") == 0);
  CHECK_MPI(MPI_Type_dup(MPI_INT, &type));
  CHECK_MPI(MPI_Type_get_name(type, name, &length));
  CHECK_EQUAL(length, 0);
  memset(much, 'x', sizeof much);
  much[sizeof much - 1] = '\0';
  CHECK_MPI(MPI_Type_set_name(type, much));
  CHECK_MPI(MPI_Type_get_name(type, name, &length));
  CHECK_EQUAL(length, MPI_MAX_OBJECT_NAME - 1);
  CHECK_MPI(MPI_Type_free(&type));
}

static int deletions;
static int count_deletion(MPI_Datatype type, int keyval, void* value, void* extra) {
  (void)type, (void)keyval, (void)value, (void)extra;
  ++deletions;
  return MPI_SUCCESS;
}
static int refuse_copy(MPI_Datatype type, int keyval, void* extra, void* in, void* out, int* flag) {
  (void)type, (void)keyval, (void)extra, (void)in, (void)out, (void)flag;
  return MPI_ERR_INTERN;
}

static void duplicates(void) {
  MPI_Datatype type, copy;
  int keyval, flag;
  void* value;
  CHECK_MPI(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, count_deletion, &keyval, NULL));
  CHECK_MPI(MPI_Type_contiguous(3, MPI_INT, &type));
  CHECK_MPI(MPI_Type_set_attr(type, keyval, &deletions));
  CHECK_MPI(MPI_Type_dup(type, &copy));
  CHECK_MPI(MPI_Type_get_attr(copy, keyval, &value, &flag));
  CHECK(flag && value == &deletions);
  CHECK_MPI(MPI_Type_free(&type));
  CHECK_MPI(MPI_Type_free(&copy));
  CHECK_EQUAL(deletions, 2);
  CHECK_MPI(MPI_Type_free_keyval(&keyval));

  CHECK_MPI(MPI_Type_create_keyval(refuse_copy, MPI_TYPE_NULL_DELETE_FN, &keyval, NULL));
  CHECK_MPI(MPI_Type_contiguous(3, MPI_INT, &type));
  CHECK_MPI(MPI_Type_set_attr(type, keyval, NULL));
  CHECK_ERROR(MPI_Type_dup(type, &copy), MPI_ERR_INTERN, "");
  CHECK(copy == MPI_DATATYPE_NULL);
  CHECK_MPI(MPI_Type_free(&type));
  CHECK_MPI(MPI_Type_free_keyval(&keyval));
}

static void life(void) {
  MPI_Datatype inner, outer, dangling;
  int size, value = 0, position = 0;
  char packed[64];
  CHECK_MPI(MPI_Type_contiguous(2, MPI_INT, &inner));
  CHECK_MPI(MPI_Type_contiguous(3, inner, &outer));
  dangling = inner;
  CHECK_MPI(MPI_Type_free(&inner));
  CHECK_ERROR(MPI_Type_size(dangling, &size), MPI_ERR_TYPE, "freed");
  CHECK_MPI(MPI_Type_size(outer, &size)); /* built from the freed one, unaffected (section 5.1.9) */
  CHECK_EQUAL(size, 24);
  CHECK_ERROR(MPI_Pack(&value, 1, outer, packed, 64, &position, MPI_COMM_SELF), MPI_ERR_TYPE, "commit");
  CHECK_MPI(MPI_Type_commit(&outer));
  CHECK_MPI(MPI_Type_commit(&outer));
  CHECK_MPI(MPI_Type_free(&outer));
  inner = MPI_INT;
  CHECK_MPI(MPI_Type_commit(&inner));
  CHECK_ERROR(MPI_Type_free(&inner), MPI_ERR_TYPE, "MPI_INT");
  CHECK(inner == MPI_INT);
}

static void wrong_arguments(void) {
  const int one[] = {1}, minus[] = {-1};
  const MPI_Aint zero[] = {0};
  const MPI_Datatype null[] = {MPI_DATATYPE_NULL};
  const int sizes[] = {4, 4}, parts[] = {2, 2}, starts[] = {1, 3};
  MPI_Datatype type;
  int size;
  CHECK_ERROR(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT, "-1");
  CHECK_ERROR(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type), MPI_ERR_TYPE, "oldtype is MPI_DATATYPE_NULL");
  CHECK_ERROR(MPI_Type_contiguous(1, (MPI_Datatype)MPI_COMM_WORLD, &type), MPI_ERR_TYPE, "communicator");
  CHECK_ERROR(MPI_Type_contiguous(1, MPI_INT, NULL), MPI_ERR_ARG, "newtype");
  CHECK_ERROR(MPI_Type_contiguous_c(1ll << 62, MPI_INT, &type), MPI_ERR_COUNT, "");
  CHECK_ERROR(MPI_Type_vector(1, -1, 1, MPI_INT, &type), MPI_ERR_ARG, "block length");
  CHECK_ERROR(MPI_Type_indexed(-1, one, one, MPI_INT, &type), MPI_ERR_COUNT, "");
  CHECK_ERROR(MPI_Type_indexed(1, NULL, one, MPI_INT, &type), MPI_ERR_ARG, "array_of_blocklengths");
  CHECK_ERROR(MPI_Type_indexed(1, minus, one, MPI_INT, &type), MPI_ERR_ARG, "");
  CHECK_ERROR(MPI_Type_create_struct(1, one, zero, null, &type), MPI_ERR_TYPE, "array_of_types[0]");
  CHECK_ERROR(MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG,
              "start[1]");
  CHECK_ERROR(MPI_Type_create_subarray(0, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG,
              "ndims");
  CHECK_ERROR(MPI_Type_size(MPI_INT, NULL), MPI_ERR_ARG, "size");
  CHECK_ERROR(MPI_Type_size(MPI_DATATYPE_NULL, &size), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
  CHECK_ERROR(MPI_Type_commit(NULL), MPI_ERR_TYPE, "");
}

static void elements(void) {
  MPI_Datatype type;
  MPI_Status status;
  MPI_Count large;
  int count;
  memset(&status, 0, sizeof status);
  CHECK_MPI(MPI_Type_contiguous(2, MPI_DOUBLE_INT, &type));
  CHECK_MPI(MPI_Status_set_elements(&status, type, 3));
  CHECK_MPI(MPI_Get_elements(&status, type, &count));
  CHECK_EQUAL(count, 3);
  CHECK_MPI(MPI_Get_count(&status, type, &count));
  CHECK_EQUAL(count, MPI_UNDEFINED);
  CHECK_MPI(MPI_Get_count(&status, MPI_BYTE, &count));
  CHECK_EQUAL(count, 20);
  CHECK_MPI(MPI_Status_set_elements_x(&status, MPI_BYTE, 1ll << 40));
  CHECK_MPI(MPI_Get_elements(&status, MPI_BYTE, &count));
  CHECK_EQUAL(count, MPI_UNDEFINED);
  CHECK_MPI(MPI_Get_elements_x(&status, MPI_BYTE, &large));
  CHECK_EQUAL(large, 1ll << 40);
  CHECK_MPI(MPI_Get_count_c(&status, MPI_INT, &large));
  CHECK_EQUAL(large, 1ll << 38);
  CHECK_ERROR(MPI_Status_set_elements(&status, MPI_INT, -1), MPI_ERR_COUNT, "");
  CHECK_ERROR(MPI_Get_count(NULL, MPI_INT, &count), MPI_ERR_ARG, "status");
  CHECK_MPI(MPI_Type_free(&type));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  sizes();
  addresses();
  names();
  duplicates();
  life();
  wrong_arguments();
  elements();
  MPI_Finalize();
  return 0;
}
