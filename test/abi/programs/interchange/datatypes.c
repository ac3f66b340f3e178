/* Part of the interchange program; see main.c. */

#include "interchange.h"

#include <string.h>
#include <wchar.h>

struct particle {
  double position[3];
  int charge;
  char name[5];
};

static void show_type(const char* what, MPI_Datatype type) {
  MPI_Aint lower, extent, true_lower, true_extent;
  int bytes, integers, addresses, types, combiner;
  OK(MPI_Type_size(type, &bytes));
  OK(MPI_Type_get_extent(type, &lower, &extent));
  OK(MPI_Type_get_true_extent(type, &true_lower, &true_extent));
  OK(MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner));
  record("%s: size %d, extent %ld+%ld, true %ld+%ld, made by %d of %d, %d, %d\n", what, bytes, (long)lower,
         (long)extent, (long)true_lower, (long)true_extent, combiner, integers, addresses, types);
}

void derived_types(void) {
  struct particle out[2] = {{{1, 2, 3}, 4, "five"}, {{6, 7, 8}, 9, "ten"}}, in[2];
  const int lengths[3] = {3, 1, 5}, blocks[2] = {2, 1}, starts[2] = {0, 4};
  MPI_Datatype parts[3] = {MPI_DOUBLE, MPI_INT, MPI_CHAR}, record_type, packed_type, column, pieces, shifted,
               got[3];
  MPI_Aint places[3], base, got_places[3];
  int matrix[4][5], row[4], sizes[4], i, j, position = 0, room, elements, got_integers[4];
  char buffer[256];
  MPI_Status status;

  OK(MPI_Get_address(out, &base));
  OK(MPI_Get_address(&out[0].position, places));
  OK(MPI_Get_address(&out[0].charge, places + 1));
  OK(MPI_Get_address(&out[0].name, places + 2));
  for (i = 0; i < 3; ++i)
    places[i] = MPI_Aint_diff(places[i], base);
  OK(MPI_Type_create_struct(3, lengths, places, parts, &packed_type));
  OK(MPI_Type_create_resized(packed_type, 0, sizeof(struct particle), &record_type));
  OK(MPI_Type_commit(&record_type));
  show_type("struct", packed_type);
  show_type("resized", record_type);
  OK(MPI_Type_get_contents(packed_type, 4, 3, 3, got_integers, got_places, got));
  CHECK(got_integers[0] == 3 && got_integers[3] == 5 && got_places[1] == places[1] && got[1] == MPI_INT);

  memset(in, 0, sizeof in);
  OK(MPI_Sendrecv(out, 2, record_type, rank, 0, in, 2, record_type, rank, 0, MPI_COMM_WORLD, &status));
  show_status("structs", &status, record_type);
  CHECK(memcmp(in[1].position, out[1].position, sizeof in[1].position) == 0);
  CHECK(in[0].charge == 4 && strcmp(in[1].name, "ten") == 0);
  OK(MPI_Sendrecv(out, 1, record_type, rank, 0, in, 2, record_type, rank, 0, MPI_COMM_WORLD, &status));
  OK(MPI_Get_elements(&status, record_type, &elements));
  record("elements of a struct: %d\n", elements);

  for (i = 0; i < 4; ++i)
    for (j = 0; j < 5; ++j)
      matrix[i][j] = 10 * i + j;
  OK(MPI_Type_vector(4, 1, 5, MPI_INT, &column));
  OK(MPI_Type_commit(&column));
  show_type("vector", column);
  OK(MPI_Sendrecv(&matrix[0][2], 1, column, rank, 1, row, 4, MPI_INT, rank, 1, MPI_COMM_WORLD, &status));
  record("a column: %d %d %d %d\n", row[0], row[1], row[2], row[3]);

  OK(MPI_Type_indexed(2, blocks, starts, MPI_INT, &pieces));
  OK(MPI_Type_create_resized(pieces, -4, 32, &shifted));
  OK(MPI_Type_commit(&pieces));
  show_type("indexed", pieces);
  show_type("shifted", shifted);
  OK(MPI_Pack_size(1, pieces, MPI_COMM_WORLD, &room));
  CHECK(room >= 12 && room <= (int)sizeof buffer);
  OK(MPI_Pack(matrix[1], 1, pieces, buffer, (int)sizeof buffer, &position, MPI_COMM_WORLD));
  i = position;
  position = 0;
  OK(MPI_Unpack(buffer, i, &position, sizes, 3, MPI_INT, MPI_COMM_WORLD));
  record("unpacked: %d %d %d\n", sizes[0], sizes[1], sizes[2]);

  OK(MPI_Type_free(&record_type));
  OK(MPI_Type_free(&packed_type));
  OK(MPI_Type_free(&column));
  OK(MPI_Type_free(&pieces));
  OK(MPI_Type_free(&shifted));
  CHECK(record_type == MPI_DATATYPE_NULL);
}

void named_types(void) {
  static const struct {
    const char* name;
    MPI_Datatype type;
    int bytes;
  } types[] = {
#define NAMED(type, bytes) {#type, type, (int)(bytes)}
      NAMED(MPI_CHAR, 1),
      NAMED(MPI_SIGNED_CHAR, 1),
      NAMED(MPI_UNSIGNED_CHAR, 1),
      NAMED(MPI_BYTE, 1),
      NAMED(MPI_PACKED, 1),
      NAMED(MPI_WCHAR, sizeof(wchar_t)),
      NAMED(MPI_SHORT, sizeof(short)),
      NAMED(MPI_UNSIGNED_SHORT, sizeof(short)),
      NAMED(MPI_INT, sizeof(int)),
      NAMED(MPI_UNSIGNED, sizeof(int)),
      NAMED(MPI_LONG, sizeof(long)),
      NAMED(MPI_UNSIGNED_LONG, sizeof(long)),
      NAMED(MPI_LONG_LONG, sizeof(long long)),
      NAMED(MPI_UNSIGNED_LONG_LONG, sizeof(long long)),
      NAMED(MPI_FLOAT, 4),
      NAMED(MPI_DOUBLE, 8),
      NAMED(MPI_LONG_DOUBLE, sizeof(long double)),
      NAMED(MPI_C_BOOL, 1),
      NAMED(MPI_C_FLOAT_COMPLEX, 8),
      NAMED(MPI_C_DOUBLE_COMPLEX, 16),
      NAMED(MPI_INT8_T, 1),
      NAMED(MPI_UINT8_T, 1),
      NAMED(MPI_INT16_T, 2),
      NAMED(MPI_UINT16_T, 2),
      NAMED(MPI_INT32_T, 4),
      NAMED(MPI_UINT32_T, 4),
      NAMED(MPI_INT64_T, 8),
      NAMED(MPI_UINT64_T, 8),
      NAMED(MPI_AINT, sizeof(MPI_Aint)),
      NAMED(MPI_OFFSET, sizeof(MPI_Offset)),
      NAMED(MPI_COUNT, sizeof(MPI_Count)),
      NAMED(MPI_FLOAT_INT, 8),
      NAMED(MPI_DOUBLE_INT, 12),
      NAMED(MPI_LONG_INT, sizeof(long) + 4),
      NAMED(MPI_2INT, 8),
      NAMED(MPI_SHORT_INT, 6)};
  size_t i;
  for (i = 0; i < sizeof types / sizeof *types; ++i) {
    int bytes = -1, length;
    char name[MPI_MAX_OBJECT_NAME];
    OK(MPI_Type_size(types[i].type, &bytes));
    OK(MPI_Type_get_name(types[i].type, name, &length));
    record("%s %d %d\n", types[i].name, bytes, MPI_Type_toint(types[i].type));
    /* Of types with two names, either. */
    if (types[i].type != MPI_LONG_LONG && types[i].type != MPI_C_FLOAT_COMPLEX)
      CHECK(strcmp(name, types[i].name) == 0);
    CHECK(bytes == types[i].bytes);
    CHECK(MPI_Type_fromint(MPI_Type_toint(types[i].type)) == types[i].type);
  }
}
