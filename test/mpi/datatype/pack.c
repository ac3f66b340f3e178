/* ranks: 1
   Packing and unpacking, native and external32, one after another into one buffer; every wrong argument. */
#include "../check.h"

static void native(void) {
  int numbers[20], back[20] = {0}, position = 0, size;
  double value = 2.5, value_back = 0;
  char buffer[64];
  MPI_Count large = 0;
  MPI_Datatype vector;
  for (int i = 0; i < 20; ++i)
    numbers[i] = i;
  CHECK_MPI(MPI_Type_vector(3, 2, 4, MPI_INT, &vector));
  CHECK_MPI(MPI_Type_commit(&vector));
  CHECK_MPI(MPI_Pack_size(1, vector, MPI_COMM_WORLD, &size));
  CHECK_EQUAL(size, 24);
  CHECK_MPI(MPI_Pack(numbers, 1, vector, buffer, sizeof buffer, &position, MPI_COMM_WORLD));
  CHECK_MPI(MPI_Pack(&value, 1, MPI_DOUBLE, buffer, sizeof buffer, &position, MPI_COMM_WORLD));
  CHECK_EQUAL(position, 32);
  position = 0;
  CHECK_MPI(MPI_Unpack(buffer, 32, &position, back, 6, MPI_INT, MPI_COMM_WORLD));
  CHECK(back[1] == 1 && back[2] == 4 && back[5] == 9);
  CHECK_MPI(MPI_Unpack(buffer, 32, &position, &value_back, 1, MPI_DOUBLE, MPI_COMM_WORLD));
  CHECK(value_back == value && position == 32);
  CHECK_MPI(MPI_Unpack_c(buffer, 32, &large, back, 1, vector, MPI_COMM_WORLD));
  CHECK(large == 24 && back[9] == 9);
  CHECK_MPI(MPI_Pack_size(1 << 30, vector, MPI_COMM_WORLD, &size));
  CHECK_EQUAL(size, MPI_UNDEFINED);
  CHECK_MPI(MPI_Pack_size_c(1 << 30, vector, MPI_COMM_WORLD, &large));
  CHECK_EQUAL(large, 24ll << 30);

  position = 48;
  CHECK_ERROR(MPI_Pack(numbers, 1, vector, buffer, sizeof buffer, &position, MPI_COMM_WORLD),
              MPI_ERR_TRUNCATE, "outbuf");
  CHECK_EQUAL(position, 48);
  CHECK_ERROR(MPI_Unpack(buffer, 50, &position, back, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TRUNCATE, "inbuf");
  position = 65;
  CHECK_ERROR(MPI_Pack(numbers, 1, MPI_INT, buffer, sizeof buffer, &position, MPI_COMM_WORLD), MPI_ERR_ARG,
              "position");
  position = 0;
  CHECK_ERROR(MPI_Pack(numbers, -1, MPI_INT, buffer, 64, &position, MPI_COMM_WORLD), MPI_ERR_COUNT,
              "incount");
  CHECK_ERROR(MPI_Pack(NULL, 1, MPI_INT, buffer, 64, &position, MPI_COMM_WORLD), MPI_ERR_BUFFER, "inbuf");
  CHECK_ERROR(MPI_Pack(numbers, 1, MPI_INT, NULL, 64, &position, MPI_COMM_WORLD), MPI_ERR_BUFFER, "outbuf");
  CHECK_ERROR(MPI_Pack(numbers, 1, MPI_INT, buffer, -1, &position, MPI_COMM_WORLD), MPI_ERR_ARG, "outsize");
  CHECK_ERROR(MPI_Pack(numbers, 1, MPI_INT, buffer, 64, NULL, MPI_COMM_WORLD), MPI_ERR_ARG, "position");
  CHECK_ERROR(MPI_Pack(numbers, 1, MPI_INT, buffer, 64, &position, MPI_COMM_NULL), MPI_ERR_COMM, "");
  CHECK_MPI(MPI_Pack(NULL, 0, MPI_INT, NULL, 0, &position, MPI_COMM_WORLD));
  CHECK_MPI(MPI_Type_free(&vector));
}

static void external(void) {
  const long values[] = {1, -2, 3};
  const long large = 1l << 40;
  const unsigned char expected[] = {0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 3};
  long back[3] = {0};
  unsigned char buffer[16];
  MPI_Aint size, position = 0;
  CHECK_MPI(MPI_Pack_external_size("external32", 3, MPI_LONG, &size));
  CHECK_EQUAL(size, 12);
  CHECK_MPI(MPI_Pack_external("external32", values, 3, MPI_LONG, buffer, sizeof buffer, &position));
  CHECK_EQUAL(position, 12);
  CHECK(memcmp(buffer, expected, sizeof expected) == 0);
  position = 0;
  CHECK_MPI(MPI_Unpack_external("external32", buffer, 12, &position, back, 3, MPI_LONG));
  CHECK(back[0] == 1 && back[1] == -2 && back[2] == 3);
  position = 0;
  CHECK_ERROR(MPI_Pack_external("external32", &large, 1, MPI_LONG, buffer, 16, &position), MPI_ERR_CONVERSION,
              "MPI_LONG");
  CHECK_ERROR(MPI_Pack_external("native", values, 1, MPI_LONG, buffer, 16, &position), MPI_ERR_ARG,
              "external32");
  CHECK_ERROR(MPI_Unpack_external("external32", buffer, 11, &position, back, 3, MPI_LONG), MPI_ERR_TRUNCATE,
              "inbuf");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  native();
  external();
  MPI_Finalize();
  return 0;
}
