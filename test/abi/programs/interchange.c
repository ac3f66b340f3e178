/* What every MPI with the standard ABI does in the same way, of the things that the ABI fixes: the values of
   handles and constants, the layout of a status, what callbacks are given, error classes, sizes of types. The
   test runs this program under two MPIs, as compiled against either, and compares what it prints; so it
   prints nothing that a library may choose. */

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_SIZE 65536

static int rank, size;
static char text[TEXT_SIZE]; /* what this rank will print */
static size_t used;
static int wrong; /* checks that failed */

static void record(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  used += (size_t)vsnprintf(text + used, TEXT_SIZE - used, format, arguments);
  va_end(arguments);
  if (used + 1 >= TEXT_SIZE) MPI_Abort(MPI_COMM_WORLD, 9);
}

#define CHECK(condition)                                                               \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      ++wrong;                                                                         \
      fprintf(stderr, "rank %d, line %d: not true: %s\n", rank, __LINE__, #condition); \
    }                                                                                  \
  } while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)

static int error_class(int code) {
  int result = -1;
  OK(MPI_Error_class(code, &result));
  return result;
}

static void versions(void) {
  int major, minor;
  OK(MPI_Get_version(&major, &minor));
  record("MPI %d", major);
  OK(MPI_Abi_get_version(&major, &minor));
  record(", ABI %d.%d\n", major, minor);
  CHECK(MPI_VERSION == 5 && MPI_ABI_VERSION == 1);
}

/* ---- point to point, and the fields of a status ---- */

static void show_status(const char* what, const MPI_Status* status, MPI_Datatype type) {
  int count, elements, cancelled, source, tag;
  OK(MPI_Get_count(status, type, &count));
  OK(MPI_Get_elements(status, type, &elements));
  OK(MPI_Test_cancelled(status, &cancelled));
  OK(MPI_Status_get_source(status, &source));
  OK(MPI_Status_get_tag(status, &tag));
  CHECK(source == status->MPI_SOURCE && tag == status->MPI_TAG);
  record("%s: source %d, tag %d, count %d, elements %d, cancelled %d\n", what, source, tag, count, elements,
         cancelled);
}

static void blocking(void) {
  int ring[4] = {rank, rank + 1, rank + 2, rank + 3}, got[8], flag, i;
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Status status;
  MPI_Message message;

  memset(&status, 0x5a, sizeof status);
  OK(MPI_Sendrecv(ring, 4, MPI_INT, next, 17, got, 8, MPI_INT, previous, MPI_ANY_TAG, MPI_COMM_WORLD,
                  &status));
  show_status("sendrecv", &status, MPI_INT);
  for (i = 0; i < 4; ++i)
    CHECK(got[i] == previous + i);
  CHECK(status.MPI_ERROR == 0x5a5a5a5a); /* set only by calls that complete several requests */

  OK(MPI_Recv(got, 8, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status));
  show_status("from nobody", &status, MPI_INT);
  OK(MPI_Probe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status));
  OK(MPI_Mprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &message, &status));
  CHECK(message == MPI_MESSAGE_NO_PROC);
  OK(MPI_Mrecv(got, 8, MPI_INT, &message, &status));
  CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL);

  if (rank == 0) {
    OK(MPI_Ssend(ring, 3, MPI_INT, 1, 5, MPI_COMM_WORLD));
    OK(MPI_Send_c(ring, (MPI_Count)2, MPI_INT, 1, 6, MPI_COMM_WORLD));
  } else if (rank == 1) {
    OK(MPI_Probe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status));
    show_status("probe", &status, MPI_INT);
    OK(MPI_Mprobe(0, 5, MPI_COMM_WORLD, &message, &status));
    CHECK(message != MPI_MESSAGE_NULL && message != MPI_MESSAGE_NO_PROC);
    OK(MPI_Mrecv(got, 8, MPI_INT, &message, &status));
    show_status("mrecv", &status, MPI_INT);
    CHECK(message == MPI_MESSAGE_NULL);
    OK(MPI_Recv_c(got, (MPI_Count)8, MPI_BYTE, 0, 6, MPI_COMM_WORLD, &status));
    show_status("bytes of integers", &status, MPI_BYTE);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
    CHECK(flag == 0);
  }
}

static void nonblocking(void) {
  int out[3] = {10 * rank, 10 * rank + 1, 10 * rank + 2}, in[3] = {-1, -1, -1}, index, flag, i, done = 0,
      indices[6];
  MPI_Request requests[6];
  MPI_Status statuses[6];
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;

  for (i = 0; i < 3; ++i) {
    OK(MPI_Irecv(in + i, 1, MPI_INT, previous, i, MPI_COMM_WORLD, requests + i));
    OK(MPI_Isend(out + i, 1, MPI_INT, next, i, MPI_COMM_WORLD, requests + 3 + i));
    CHECK(requests[i] != MPI_REQUEST_NULL);
  }
  OK(MPI_Waitall(6, requests, statuses));
  for (i = 0; i < 3; ++i) {
    CHECK(in[i] == 10 * previous + i && requests[i] == MPI_REQUEST_NULL);
    show_status("waitall", statuses + i, MPI_INT);
  }
  OK(MPI_Waitany(6, requests, &index, statuses));
  record("waitany of nothing: index %d, source %d, tag %d\n", index, statuses[0].MPI_SOURCE,
         statuses[0].MPI_TAG);
  OK(MPI_Testall(6, requests, &flag, MPI_STATUSES_IGNORE));
  CHECK(flag);

  OK(MPI_Recv_init(in, 1, MPI_INT, previous, 9, MPI_COMM_WORLD, requests));
  OK(MPI_Send_init(out, 1, MPI_INT, next, 9, MPI_COMM_WORLD, requests + 1));
  for (i = 0; i < 2; ++i) {
    out[0] = rank + 100 * i;
    OK(MPI_Startall(2, requests));
    for (done = 0; done < 2;) {
      int completed;
      OK(MPI_Waitsome(2, requests, &completed, indices, statuses));
      CHECK(completed > 0);
      done += completed;
    }
    CHECK(in[0] == previous + 100 * i && requests[0] != MPI_REQUEST_NULL);
  }
  OK(MPI_Request_free(requests));
  OK(MPI_Request_free(requests + 1));
  CHECK(requests[0] == MPI_REQUEST_NULL);

  OK(MPI_Irecv(in, 1, MPI_INT, rank, 77, MPI_COMM_WORLD, requests));
  OK(MPI_Cancel(requests));
  OK(MPI_Wait(requests, statuses));
  OK(MPI_Test_cancelled(statuses, &flag));
  record("cancelled: %d\n", flag);

  OK(MPI_Status_set_source(statuses, 4));
  OK(MPI_Status_set_tag(statuses, 5));
  OK(MPI_Status_set_error(statuses, MPI_ERR_OTHER));
  OK(MPI_Status_set_elements(statuses, MPI_DOUBLE, 7));
  OK(MPI_Status_set_cancelled(statuses, 0));
  show_status("a status that was set", statuses, MPI_DOUBLE);
  CHECK(statuses->MPI_ERROR == MPI_ERR_OTHER);
}

/* ---- datatypes ---- */

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

static void derived_types(void) {
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

static void named_types(void) {
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

/* ---- reductions and collectives ---- */

static int op_calls;

/* Affine maps x -> a x + b compose associatively, not commutatively. */
static void compose(void* in, void* inout, int* count, MPI_Datatype* type) {
  const int* first = (const int*)in;
  int* second = (int*)inout;
  int i;
  CHECK(*type == MPI_2INT);
  for (i = 0; i < *count; ++i) {
    const int a = first[2 * i] * second[2 * i], b = first[2 * i + 1] * second[2 * i] + second[2 * i + 1];
    second[2 * i] = a;
    second[2 * i + 1] = b;
  }
  ++op_calls;
}

static void compose_c(void* in, void* inout, MPI_Count* count, MPI_Datatype* type) {
  int small = (int)*count;
  compose(in, inout, &small, type);
}

static void reductions(void) {
  int map[2] = {rank + 2, rank + 1}, result[2] = {-1, -1}, commutes, value = rank + 1, other;
  struct {
    double value;
    int where;
  } mine = {(rank * 7) % 3 + 0.5, rank}, best;
  unsigned char bits = (unsigned char)(1u << rank);
  MPI_Op op, op_c;

  OK(MPI_Op_create(compose, 0, &op));
  OK(MPI_Op_create_c(compose_c, 0, &op_c));
  OK(MPI_Op_commutative(op, &commutes));
  CHECK(!commutes);
  OK(MPI_Allreduce(map, result, 1, MPI_2INT, op, MPI_COMM_WORLD));
  record("composed: %d %d\n", result[0], result[1]);
  OK(MPI_Allreduce_c(map, result, 1, MPI_2INT, op_c, MPI_COMM_WORLD));
  record("composed by large count: %d %d\n", result[0], result[1]);
  OK(MPI_Scan(map, result, 1, MPI_2INT, op, MPI_COMM_WORLD));
  record("scanned: %d %d\n", result[0], result[1]);
  OK(MPI_Reduce_local(map, result, 1, MPI_2INT, op));
  record("locally: %d %d\n", result[0], result[1]);
  OK(MPI_Op_free(&op));
  OK(MPI_Op_free(&op_c));
  CHECK(op == MPI_OP_NULL && op_calls > 0);

  OK(MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD));
  record("largest: %.1f at %d\n", best.value, best.where);
  OK(MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD));
  record("smallest: %.1f at %d\n", best.value, best.where);
  OK(MPI_Allreduce(MPI_IN_PLACE, &bits, 1, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD));
  OK(MPI_Allreduce(&value, &other, 1, MPI_INT, MPI_PROD, MPI_COMM_WORLD));
  record("bits %d, product %d\n", bits, other);
  OK(MPI_Reduce(&value, &other, 1, MPI_INT, MPI_SUM, size - 1, MPI_COMM_WORLD));
  if (rank == size - 1) record("sum at the root: %d\n", other);
  OK(MPI_Exscan(&value, &other, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  if (rank > 0) record("exscan: %d\n", other);
}

static void collectives(void) {
  int counts[16], displacements[16], i, value = rank == 1 ? 42 : 0, all[64], mine[16], total = 0;
  MPI_Datatype types[16];

  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Bcast(&value, 1, MPI_INT, 1, MPI_COMM_WORLD));
  record("bcast %d\n", value);
  for (i = 0; i < size; ++i) {
    counts[i] = i + 1;
    displacements[i] = total;
    total += counts[i];
    mine[i] = 100 * rank + i;
    types[i] = MPI_INT;
  }
  OK(MPI_Allgatherv(mine, rank + 1, MPI_INT, all, counts, displacements, MPI_INT, MPI_COMM_WORLD));
  record("allgatherv");
  for (i = 0; i < total; ++i)
    record(" %d", all[i]);
  OK(MPI_Alltoall(mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
  record("\nalltoall");
  for (i = 0; i < size; ++i)
    record(" %d", all[i]);
  for (i = 0; i < size; ++i) {
    counts[i] = 1;
    displacements[i] = (int)sizeof(int) * i;
  }
  memset(all, 0, sizeof all);
  OK(MPI_Alltoallw(mine, counts, displacements, types, all, counts, displacements, types, MPI_COMM_WORLD));
  record("\nalltoallw");
  for (i = 0; i < size; ++i)
    record(" %d", all[i]);
  OK(MPI_Gather(&value, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD));
  OK(MPI_Scatter(mine, 1, MPI_INT, rank == 0 ? MPI_IN_PLACE : &value, 1, MPI_INT, 0, MPI_COMM_WORLD));
  OK(MPI_Reduce_scatter_block(mine, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  record("\nreduce_scatter_block %d\n", value);
}

/* ---- errors ---- */

static int handler_calls, handler_class;
static MPI_Comm handler_comm;

static void on_error(MPI_Comm* comm, int* code, ...) {
  ++handler_calls;
  handler_comm = *comm;
  handler_class = error_class(*code);
}

static void errors(void) {
  int value = rank, code, length;
  char message[MPI_MAX_ERROR_STRING];
  MPI_Errhandler handler, got;
  MPI_Comm comm;
  MPI_Status status;
  MPI_Datatype type = MPI_DATATYPE_NULL;

  OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
  CHECK(got == MPI_ERRORS_ARE_FATAL);
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  OK(MPI_Comm_get_errhandler(comm, &got));
  CHECK(got == MPI_ERRORS_RETURN);
  OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));

#define CLASS_OF(call) record("%s: %d\n", #call, error_class(call))
  CLASS_OF(MPI_Send(&value, 1, MPI_INT, size, 0, comm));
  CLASS_OF(MPI_Send(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm));
  CLASS_OF(MPI_Send(&value, 1, MPI_INT, 0, -7, comm));
  CLASS_OF(MPI_Send(&value, -1, MPI_INT, 0, 0, comm));
  CLASS_OF(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, comm));
  CLASS_OF(MPI_Bcast(&value, 1, MPI_INT, size, comm));
  CLASS_OF(MPI_Allreduce(&value, &value, 1, MPI_INT, MPI_OP_NULL, comm));
  CLASS_OF(MPI_Type_commit(&type));

  {
    int two[2] = {1, 2};
    MPI_Request request;
    OK(MPI_Isend(two, 2, MPI_INT, rank, 2, comm, &request));
    code = MPI_Recv(&value, 1, MPI_INT, rank, 2, comm, &status);
    record("truncated: %d\n", error_class(code));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
  OK(MPI_Error_string(code, message, &length));
  CHECK(length > 0 && length < MPI_MAX_ERROR_STRING && (int)strlen(message) == length);

  OK(MPI_Comm_create_errhandler(on_error, &handler));
  OK(MPI_Comm_set_errhandler(comm, handler));
  OK(MPI_Errhandler_free(&handler));
  CHECK(handler == MPI_ERRHANDLER_NULL);
  MPI_Send(&value, 1, MPI_INT, size + 1, 0, comm); /* what it returns is the library's choice */
  CHECK(handler_calls == 1 && handler_comm == comm);
  record("handler called for %d\n", handler_class);
  OK(MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER));
  CHECK(handler_calls == 2);
  OK(MPI_Comm_free(&comm));
  CHECK(comm == MPI_COMM_NULL);
}

/* ---- attributes ---- */

static int copies, deletes, copied_key, state;

static int on_copy(MPI_Comm comm, int key, void* extra_state, void* in, void* out, int* flag) {
  CHECK(comm == MPI_COMM_WORLD && extra_state == &state);
  copied_key = key;
  ++copies;
  *(void**)out = (char*)in + 1;
  *flag = 1;
  return MPI_SUCCESS;
}

static int on_delete(MPI_Comm comm, int key, void* value, void* extra_state) {
  (void)comm;
  CHECK(extra_state == &state && value != NULL && key == copied_key);
  ++deletes;
  return MPI_SUCCESS;
}

static void attributes(void) {
  static char place[4];
  void* value;
  int key, dup_key, null_key, flag, *tag_bound;
  MPI_Comm comm;

  OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_bound, &flag));
  CHECK(flag && *tag_bound >= 32767);

  OK(MPI_Comm_create_keyval(on_copy, on_delete, &key, &state));
  OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &dup_key, NULL));
  OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &null_key, NULL));
  OK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, place));
  OK(MPI_Comm_set_attr(MPI_COMM_WORLD, dup_key, place + 2));
  OK(MPI_Comm_set_attr(MPI_COMM_WORLD, null_key, place + 3));
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  CHECK(copies == 1 && copied_key == key);
  OK(MPI_Comm_get_attr(comm, key, &value, &flag));
  CHECK(flag && value == place + 1);
  OK(MPI_Comm_get_attr(comm, dup_key, &value, &flag));
  CHECK(flag && value == place + 2);
  OK(MPI_Comm_get_attr(comm, null_key, &value, &flag));
  CHECK(!flag);
  OK(MPI_Comm_free(&comm));
  CHECK(deletes == 1);
  OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, key));
  OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, dup_key));
  OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, null_key));
  CHECK(deletes == 2);
  OK(MPI_Comm_free_keyval(&key));
  OK(MPI_Comm_free_keyval(&dup_key));
  OK(MPI_Comm_free_keyval(&null_key));
  CHECK(key == MPI_KEYVAL_INVALID);
  record("attributes: %d copied, %d deleted\n", copies, deletes);
}

/* ---- communicators, groups, info, handles as integers ---- */

static void communicators(void) {
  MPI_Comm half, copy;
  MPI_Group world, part, got;
  const int first[1] = {0};
  int result, ranks[2] = {0, 0}, translated[2], length;
  char name[MPI_MAX_OBJECT_NAME];

  OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 5, -rank, &half));
  if (rank == 0) {
    CHECK(half == MPI_COMM_NULL);
  } else {
    OK(MPI_Comm_rank(half, &result));
    record("rank in the part: %d\n", result);
    OK(MPI_Comm_compare(half, MPI_COMM_WORLD, &result));
    record("compared with the world: %d\n", result);
    OK(MPI_Comm_free(&half));
  }
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  OK(MPI_Comm_compare(copy, MPI_COMM_WORLD, &result));
  record("a copy compares as %d, itself as ", result);
  OK(MPI_Comm_compare(copy, copy, &result));
  record("%d\n", result);
  CHECK(MPI_Comm_fromint(MPI_Comm_toint(copy)) == copy);
  OK(MPI_Comm_set_name(copy, "a copy"));
  OK(MPI_Comm_get_name(copy, name, &length));
  CHECK(strcmp(name, "a copy") == 0 && length == 6);
  OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
  record("%s\n", name);

  OK(MPI_Comm_group(copy, &world));
  OK(MPI_Group_excl(world, 1, first, &part));
  OK(MPI_Group_size(part, &result));
  OK(MPI_Group_translate_ranks(world, 2, ranks, part, translated));
  record("%d without the first, which is %d there\n", result, translated[0]);
  OK(MPI_Group_intersection(part, MPI_GROUP_EMPTY, &got));
  OK(MPI_Group_compare(got, MPI_GROUP_EMPTY, &result));
  CHECK(result == MPI_IDENT);
  CHECK(MPI_Group_fromint(MPI_Group_toint(part)) == part);
  OK(MPI_Group_free(&part));
  OK(MPI_Group_free(&world));
  OK(MPI_Comm_free(&copy));
}

static void infos(void) {
  MPI_Info info;
  char value[32];
  int flag, room = (int)sizeof value, keys;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "colour", "green"));
  OK(MPI_Info_set(info, "shape", "round"));
  OK(MPI_Info_get_nkeys(info, &keys));
  OK(MPI_Info_get_string(info, "colour", &room, value, &flag));
  record("%d keys, colour %s, needs %d\n", keys, value, room);
  OK(MPI_Info_get_string(info, "taste", &room, value, &flag));
  CHECK(!flag && MPI_Info_fromint(MPI_Info_toint(info)) == info);
  OK(MPI_Info_free(&info));
  CHECK(info == MPI_INFO_NULL);
}

static void handles(void) {
  MPI_Request request;
  int value;
#define HANDLE(kind, handle)                                    \
  record("%s %d\n", #handle, MPI_##kind##_toint(handle));       \
  CHECK(MPI_##kind##_toint(handle) == (int)(intptr_t)(handle)); \
  CHECK(MPI_##kind##_fromint(MPI_##kind##_toint(handle)) == (handle))
  HANDLE(Comm, MPI_COMM_WORLD);
  HANDLE(Comm, MPI_COMM_SELF);
  HANDLE(Comm, MPI_COMM_NULL);
  HANDLE(Group, MPI_GROUP_EMPTY);
  HANDLE(Group, MPI_GROUP_NULL);
  HANDLE(Type, MPI_DATATYPE_NULL);
  HANDLE(Op, MPI_SUM);
  HANDLE(Op, MPI_NO_OP);
  HANDLE(Op, MPI_OP_NULL);
  HANDLE(Errhandler, MPI_ERRORS_RETURN);
  HANDLE(Errhandler, MPI_ERRORS_ABORT);
  HANDLE(Info, MPI_INFO_NULL);
  HANDLE(Info, MPI_INFO_ENV);
  HANDLE(Request, MPI_REQUEST_NULL);
  HANDLE(Message, MPI_MESSAGE_NULL);
  HANDLE(Message, MPI_MESSAGE_NO_PROC);
  HANDLE(Win, MPI_WIN_NULL);
  HANDLE(File, MPI_FILE_NULL);
  HANDLE(Session, MPI_SESSION_NULL);
  OK(MPI_Recv_init(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request));
  CHECK(MPI_Request_fromint(MPI_Request_toint(request)) == request);
  OK(MPI_Request_free(&request));
}

static void memory(void) {
  int* numbers;
  MPI_Aint where;
  MPI_Datatype absolute;
  const int one[1] = {1};
  int value = 5 + rank;
  OK(MPI_Alloc_mem(1024, MPI_INFO_NULL, &numbers));
  OK(MPI_Get_address(numbers, &where));
  OK(MPI_Type_create_hindexed(1, one, &where, MPI_INT, &absolute));
  OK(MPI_Type_commit(&absolute));
  OK(MPI_Sendrecv(&value, 1, MPI_INT, rank, 0, MPI_BOTTOM, 1, absolute, rank, 0, MPI_COMM_WORLD,
                  MPI_STATUS_IGNORE));
  CHECK(numbers[0] == value);
  OK(MPI_Type_free(&absolute));
  OK(MPI_Free_mem(numbers));
}

/* Ranks print in order. */
static void print_all(void) {
  int from, length = (int)used;
  if (rank != 0) {
    OK(MPI_Send(text, length, MPI_CHAR, 0, 99, MPI_COMM_WORLD));
    return;
  }
  for (from = 0; from < size; ++from) {
    if (from != 0) {
      MPI_Status status;
      OK(MPI_Recv(text, TEXT_SIZE, MPI_CHAR, from, 99, MPI_COMM_WORLD, &status));
      OK(MPI_Get_count(&status, MPI_CHAR, &length));
    }
    printf("rank %d\n%.*s", from, length, text);
  }
}

int main(int argc, char** argv) {
  int provided, length, all_wrong;
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
  OK(MPI_Get_library_version(version, &length));
  if (rank == 0) fprintf(stderr, "library: %s\n", version);
  versions();
  blocking();
  nonblocking();
  derived_types();
  named_types();
  reductions();
  collectives();
  errors();
  attributes();
  communicators();
  infos();
  handles();
  memory();
  print_all();
  OK(MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  OK(MPI_Finalize());
  return all_wrong == 0 ? 0 : 1;
}
