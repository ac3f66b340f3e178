/* ranks: 1
   Operations outside of collectives: the program's own in both forms and their order of operands, datatypes
   in them, MPI_Reduce_local, and every wrong argument. */
#include "../check.h"

static MPI_Datatype seen;

static void concatenate(void* in, void* inout, int* length, MPI_Datatype* type) {
  seen = *type;
  for (int i = 0; i < *length; ++i)
    ((int*)inout)[i] += 10 * ((int*)in)[i];
}

static void concatenate_large(void* in, void* inout, MPI_Count* length, MPI_Datatype* type) {
  seen = *type;
  for (MPI_Count i = 0; i < *length; ++i)
    ((int*)inout)[i] += 10 * ((int*)in)[i];
}

static void own(void) {
  int commutes, in[] = {1, 2}, inout[] = {3, 4};
  MPI_Op op;
  MPI_Datatype pair;
  CHECK_MPI(MPI_Op_create(concatenate, 0, &op));
  CHECK_MPI(MPI_Op_commutative(op, &commutes));
  CHECK_EQUAL(commutes, 0);
  CHECK_MPI(MPI_Reduce_local(in, inout, 2, MPI_INT, op));
  CHECK(inout[0] == 13 && inout[1] == 24 && seen == MPI_INT);
  CHECK(MPI_Op_fromint(MPI_Op_toint(op)) == op);
  CHECK_MPI(MPI_Op_free(&op));
  CHECK(op == MPI_OP_NULL);

  CHECK_MPI(MPI_Op_create_c(concatenate_large, 1, &op));
  CHECK_MPI(MPI_Op_commutative(op, &commutes));
  CHECK_EQUAL(commutes, 1);
  CHECK_MPI(MPI_Type_contiguous(2, MPI_INT, &pair));
  CHECK_ERROR(MPI_Reduce_local(in, inout, 1, pair, op), MPI_ERR_TYPE, "commit");
  CHECK_MPI(MPI_Type_commit(&pair));
  inout[0] = 3;
  CHECK_MPI(MPI_Reduce_local_c(in, inout, 1, pair, op));
  CHECK(inout[0] == 13 && seen == pair);
  CHECK_MPI(MPI_Type_free(&pair));
  CHECK_MPI(MPI_Op_free(&op));
}

static void add_sparse(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i)
    ((float*)inout)[2 * i] += ((float*)in)[2 * i];
}

static void wrong_arguments(void) {
  float a = 1, b = 2;
  int commutes;
  MPI_Op op = MPI_SUM;
  MPI_Datatype pair;
  CHECK_ERROR(MPI_Op_free(&op), MPI_ERR_OP, "MPI_SUM");
  op = MPI_OP_NULL;
  CHECK_ERROR(MPI_Op_free(&op), MPI_ERR_OP, "MPI_OP_NULL");
  CHECK_ERROR(MPI_Op_commutative(MPI_OP_NULL, &commutes), MPI_ERR_OP, "");
  CHECK_ERROR(MPI_Op_create(NULL, 1, &op), MPI_ERR_ARG, "user_fn");
  CHECK_ERROR(MPI_Reduce_local(&a, &b, 1, MPI_FLOAT, MPI_BAND), MPI_ERR_OP, "MPI_BAND");
  CHECK_ERROR(MPI_Reduce_local(&a, &b, 1, MPI_FLOAT, MPI_MAXLOC), MPI_ERR_OP, "MPI_FLOAT");
  CHECK_ERROR(MPI_Reduce_local(&a, &b, -1, MPI_FLOAT, MPI_SUM), MPI_ERR_COUNT, "");
  CHECK_ERROR(MPI_Reduce_local(NULL, &b, 1, MPI_FLOAT, MPI_SUM), MPI_ERR_BUFFER, "inbuf");
  CHECK_ERROR(MPI_Reduce_local(&a, NULL, 1, MPI_FLOAT, MPI_SUM), MPI_ERR_BUFFER, "inoutbuf");
  CHECK_ERROR(MPI_Reduce_local(&a, &b, 1, MPI_DATATYPE_NULL, MPI_SUM), MPI_ERR_TYPE, "");
  float many[4] = {1, 2, 3, 4};
  MPI_Datatype sparse;
  CHECK_ERROR(MPI_Reduce_local(&a, &a, 1, MPI_FLOAT, MPI_SUM), MPI_ERR_BUFFER, "same memory");
  CHECK_ERROR(MPI_Reduce_local(many, many + 1, 2, MPI_FLOAT, MPI_SUM), MPI_ERR_BUFFER, "overlap");
  CHECK_ERROR(MPI_Reduce_local_c(many + 1, many, 2, MPI_FLOAT, MPI_SUM), MPI_ERR_BUFFER, "overlap");
  CHECK_MPI(MPI_Reduce_local(many, many, 0, MPI_FLOAT, MPI_SUM));
  CHECK_MPI(MPI_Reduce_local(many, many + 2, 2, MPI_FLOAT, MPI_SUM));
  CHECK(many[2] == 4 && many[3] == 6);
  CHECK_MPI(MPI_Op_create(add_sparse, 1, &op)); /* elements in each other's gaps do not overlap */
  CHECK_MPI(MPI_Type_create_resized(MPI_FLOAT, 0, 2 * sizeof(float), &sparse));
  CHECK_MPI(MPI_Type_commit(&sparse));
  CHECK_MPI(MPI_Reduce_local(many, many + 1, 2, sparse, op));
  CHECK(many[1] == 3 && many[3] == 10);
  CHECK_MPI(MPI_Type_free(&sparse));
  CHECK_MPI(MPI_Op_free(&op));
  CHECK_MPI(MPI_Type_contiguous(2, MPI_FLOAT, &pair));
  CHECK_MPI(MPI_Type_commit(&pair));
  CHECK_ERROR(MPI_Reduce_local(&a, &b, 1, pair, MPI_SUM), MPI_ERR_OP, "derived");
  CHECK_MPI(MPI_Type_free(&pair));
  CHECK(b == 2);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  own();
  wrong_arguments();
  MPI_Finalize();
  return 0;
}
