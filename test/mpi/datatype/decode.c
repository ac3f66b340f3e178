/* ranks: 1
   Envelope and contents of types tell how they were made, in the small and in the large form, and the types
   in them are the program's own to free; predefined types without a name are the same when asked for again.
 */
#include "../check.h"

static void small_forms(void) {
  const int lengths[] = {1, 2};
  const MPI_Aint displacements[] = {8, 0};
  MPI_Datatype inner, type, types[2];
  int integers[8], n[3], combiner;
  MPI_Aint addresses[2];
  CHECK_MPI(MPI_Type_vector(3, 2, -4, MPI_INT, &inner));
  CHECK_MPI(MPI_Type_get_envelope(inner, &n[0], &n[1], &n[2], &combiner));
  CHECK(n[0] == 3 && n[1] == 0 && n[2] == 1 && combiner == MPI_COMBINER_VECTOR);
  CHECK_MPI(MPI_Type_get_contents(inner, 3, 0, 1, integers, NULL, types));
  CHECK(integers[0] == 3 && integers[1] == 2 && integers[2] == -4 && types[0] == MPI_INT);

  {
    const MPI_Datatype members[] = {inner, MPI_DOUBLE};
    CHECK_MPI(MPI_Type_create_struct(2, lengths, displacements, members, &type));
  }
  CHECK_MPI(MPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &combiner));
  CHECK(n[0] == 3 && n[1] == 2 && n[2] == 2 && combiner == MPI_COMBINER_STRUCT);
  CHECK_ERROR(MPI_Type_get_contents(type, 2, 2, 2, integers, addresses, types), MPI_ERR_ARG, "max_integers");
  CHECK_MPI(MPI_Type_get_contents(type, 8, 2, 2, integers, addresses, types));
  CHECK(integers[0] == 2 && integers[2] == 2 && addresses[0] == 8 && types[1] == MPI_DOUBLE);
  CHECK(types[0] != inner);
  CHECK_MPI(MPI_Type_get_envelope(types[0], &n[0], &n[1], &n[2], &combiner));
  CHECK_EQUAL(combiner, MPI_COMBINER_VECTOR);
  CHECK_MPI(MPI_Type_free(&types[0]));
  CHECK_MPI(MPI_Type_free(&type));
  CHECK_MPI(MPI_Type_get_envelope(inner, &n[0], &n[1], &n[2], &combiner));
  CHECK_MPI(MPI_Type_free(&inner));

  CHECK_MPI(MPI_Type_get_envelope(MPI_FLOAT_INT, &n[0], &n[1], &n[2], &combiner));
  CHECK(n[0] == 0 && n[1] == 0 && n[2] == 0 && combiner == MPI_COMBINER_NAMED);
  CHECK_ERROR(MPI_Type_get_contents(MPI_INT, 0, 0, 0, integers, addresses, types), MPI_ERR_TYPE, "");
}

static void large_forms(void) {
  const MPI_Count sizes[] = {1ll << 33, 4}, parts[] = {3, 2}, starts[] = {1ll << 32, 1};
  MPI_Datatype type, old;
  MPI_Count n[4], counts[6];
  int small[3], integers[2], combiner;
  CHECK_MPI(MPI_Type_create_subarray_c(2, sizes, parts, starts, MPI_ORDER_C, MPI_BYTE, &type));
  CHECK_MPI(MPI_Type_get_envelope_c(type, &n[0], &n[1], &n[2], &n[3], &combiner));
  CHECK(n[0] == 2 && n[1] == 0 && n[2] == 6 && n[3] == 1 && combiner == MPI_COMBINER_SUBARRAY);
  CHECK_MPI(MPI_Type_get_contents_c(type, 2, 0, 6, 1, integers, NULL, counts, &old));
  CHECK(integers[0] == 2 && integers[1] == MPI_ORDER_C && old == MPI_BYTE);
  CHECK(counts[0] == 1ll << 33 && counts[3] == 2 && counts[4] == 1ll << 32);
  CHECK_ERROR(MPI_Type_get_envelope(type, &small[0], &small[1], &small[2], &combiner), MPI_ERR_TYPE, "large");
  CHECK_MPI(MPI_Type_free(&type));
}

static void unnamed_types(void) {
  MPI_Datatype type, again;
  int n[3], integers[2], combiner;
  CHECK_MPI(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &type));
  CHECK_MPI(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &again));
  CHECK(type == again);
  CHECK_MPI(MPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &combiner));
  CHECK(n[0] == 2 && combiner == MPI_COMBINER_F90_REAL);
  CHECK_MPI(MPI_Type_get_contents(type, 2, 0, 0, integers, NULL, NULL));
  CHECK(integers[0] == 15 && integers[1] == MPI_UNDEFINED);
  CHECK_ERROR(MPI_Type_free(&type), MPI_ERR_TYPE, "predefined");
  CHECK_ERROR(MPI_Type_create_f90_integer(99, &type), MPI_ERR_ARG, "99");

  CHECK_MPI(MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 16, &type));
  CHECK(type == MPI_COMPLEX16);
  CHECK_ERROR(MPI_Type_match_size(MPI_TYPECLASS_REAL, 5, &type), MPI_ERR_ARG, "5 bytes");

  CHECK_MPI(MPI_Type_get_value_index(MPI_FLOAT, MPI_INT, &type));
  CHECK(type == MPI_FLOAT_INT);
  CHECK_MPI(MPI_Type_get_value_index(MPI_C_DOUBLE_COMPLEX, MPI_INT, &type));
  CHECK(type == MPI_DATATYPE_NULL);
}

static void numbers(void) {
  MPI_Datatype type;
  CHECK_EQUAL(MPI_Type_toint(MPI_DOUBLE), 0x214);
  CHECK(MPI_Type_fromint(0x214) == MPI_DOUBLE);
  CHECK_MPI(MPI_Type_contiguous(2, MPI_INT, &type));
  CHECK(MPI_Type_fromint(MPI_Type_toint(type)) == type);
  CHECK_MPI(MPI_Type_free(&type));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  small_forms();
  large_forms();
  unnamed_types();
  numbers();
  MPI_Finalize();
  return 0;
}
