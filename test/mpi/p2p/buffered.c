/* Buffered mode (MPI 5.0, section 3.6): sends that return without their receives, room that comes back,
   buffers of process and communicator, automatic buffering, flush, and what happens without room. */
#include "../check.h"

static int rank, size, left, right;

static void receive_and_check(int count, int first, MPI_Comm comm) {
  int* in = malloc(sizeof(int) * (size_t)count);
  CHECK_MPI(MPI_Recv(in, count, MPI_INT, left, 4, comm, MPI_STATUS_IGNORE));
  for (int i = 0; i < count; ++i)
    CHECK_EQUAL(in[i], left * 1000 + first + i);
  free(in);
}
static void bsend(int count, int first, MPI_Comm comm) {
  int* out = malloc(sizeof(int) * (size_t)count);
  for (int i = 0; i < count; ++i)
    out[i] = rank * 1000 + first + i;
  CHECK_MPI(MPI_Bsend(out, count, MPI_INT, right, 4, comm));
  memset(out, 0, sizeof(int) * (size_t)count);
  free(out);
}

/* As much as the buffer was made for, sent before anything is received; many times over. */
static void test_capacity(void) {
  enum { messages = 8, count = 30000 };
  const int bytes = messages * (count * (int)sizeof(int) + MPI_BSEND_OVERHEAD);
  void *buffer = malloc((size_t)bytes), *detached = NULL;
  int detached_size = 0;
  CHECK_MPI(MPI_Buffer_attach(buffer, bytes));
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < messages; ++i)
      bsend(count, round * 10 + i, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < messages; ++i)
      receive_and_check(count, round * 10 + i, MPI_COMM_WORLD);
    CHECK_MPI(MPI_Buffer_flush());
  }
  /* Detaching waits for what is still in the buffer. */
  bsend(count, 5, MPI_COMM_WORLD);
  MPI_Request receive;
  int* in = malloc(sizeof(int) * count);
  MPI_Irecv(in, count, MPI_INT, left, 4, MPI_COMM_WORLD, &receive);
  CHECK_MPI(MPI_Buffer_detach(&detached, &detached_size));
  CHECK(detached == buffer);
  CHECK_EQUAL(detached_size, bytes);
  memset(buffer, 0, (size_t)bytes);
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
  for (int i = 0; i < count; ++i)
    CHECK_EQUAL(in[i], left * 1000 + 5 + i);
  free(in);
  free(buffer);
}

static void test_communicator_buffer(void) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const int bytes = 100000;
  void *buffer = malloc((size_t)bytes), *detached = NULL;
  MPI_Count detached_size = 0;
  CHECK_MPI(MPI_Comm_attach_buffer(comm, buffer, bytes));
  for (int i = 0; i < 10; ++i)
    bsend(100, i, comm);
  for (int i = 0; i < 10; ++i)
    receive_and_check(100, i, comm);
  MPI_Request request;
  CHECK_MPI(MPI_Comm_iflush_buffer(comm, &request));
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK_MPI(MPI_Comm_flush_buffer(comm));
  CHECK_MPI(MPI_Comm_detach_buffer_c(comm, &detached, &detached_size));
  CHECK(detached == buffer);
  CHECK_EQUAL(detached_size, bytes);
  free(buffer);
  MPI_Comm_free(&comm);
}

static void test_automatic(void) {
  void* detached = NULL;
  int detached_size = -1;
  CHECK_MPI(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
  for (int i = 0; i < 20; ++i)
    bsend(20000, i, MPI_COMM_WORLD);
  MPI_Request request;
  CHECK_MPI(MPI_Buffer_iflush(&request));
  for (int i = 0; i < 20; ++i)
    receive_and_check(20000, i, MPI_COMM_WORLD);
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK_MPI(MPI_Buffer_detach(&detached, &detached_size));
  CHECK(detached == MPI_BUFFER_AUTOMATIC);
  CHECK_EQUAL(detached_size, 0);
}

/* The part of a strided datatype that is data, and no more, needs room. */
static void test_strided(void) {
  enum { count = 1000 };
  const int bytes = count * (int)sizeof(int) + MPI_BSEND_OVERHEAD;
  char *buffer = malloc((size_t)bytes + 8), *detached;
  int detached_size, *out = malloc(sizeof(int) * 3 * count);
  for (int i = 0; i < 3 * count; ++i)
    out[i] = i % 3 == 0 ? rank * 1000 + i / 3 : -1;
  MPI_Datatype type;
  MPI_Type_vector(count, 1, 3, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Buffer_attach(buffer + 1, bytes); /* aligned to nothing */
  CHECK_MPI(MPI_Bsend(out, 1, type, right, 4, MPI_COMM_WORLD));
  receive_and_check(count, 0, MPI_COMM_WORLD);
  MPI_Buffer_detach(&detached, &detached_size);
  CHECK(detached == buffer + 1);
  MPI_Type_free(&type);
  free(out);
  free(buffer);
}

static void test_errors(void) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  char buffer[2000], data[4000];
  void* detached;
  int detached_size;
  MPI_Request request;
  CHECK_ERROR(MPI_Bsend(data, 1, MPI_INT, right, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER,
              "MPI_Bsend: no buffer is attached");
  CHECK_ERROR(MPI_Ibsend(data, 1, MPI_INT, right, 0, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER, "MPI_Ibsend");
  CHECK_ERROR(MPI_Buffer_detach(&detached, &detached_size), MPI_ERR_BUFFER, "no buffer is attached");
  CHECK_ERROR(MPI_Buffer_attach(buffer, -1), MPI_ERR_ARG, "size -1");
  CHECK_ERROR(MPI_Buffer_attach(NULL, 10), MPI_ERR_BUFFER, "null");
  CHECK_MPI(MPI_Buffer_attach(buffer, sizeof buffer));
  CHECK_ERROR(MPI_Buffer_attach(buffer, sizeof buffer), MPI_ERR_BUFFER, "attached already");
  CHECK_ERROR(MPI_Bsend(data, sizeof data, MPI_BYTE, right, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "4000 bytes");
  CHECK_ERROR(MPI_Bsend(data, 1, MPI_INT, right, -9, MPI_COMM_WORLD), MPI_ERR_TAG, "tag -9");
  CHECK_MPI(MPI_Buffer_detach(&detached, &detached_size));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  right = (rank + 1) % size;
  left = (rank + size - 1) % size;
  test_capacity();
  test_communicator_buffer();
  test_automatic();
  test_strided();
  test_errors();
  /* Finalizing sends what is left in an attached buffer. */
  static char last[200000];
  MPI_Buffer_attach(last, sizeof last);
  int* in = malloc(sizeof(int) * 20000);
  MPI_Request request;
  bsend(20000, 0, MPI_COMM_WORLD);
  MPI_Irecv(in, 20000, MPI_INT, left, 4, MPI_COMM_WORLD, &request);
  if (rank % 2) MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank % 2 == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
  free(in);
  MPI_Finalize();
  return 0;
}
