/* Wrong arguments of point-to-point and environment functions: the class that the standard names, and a
   sentence that names the function and the argument. MPI goes on working. */
#include "../check.h"

static int rank, size;

/* Values that are no handle of any kind: whatever a program may have lying around. */
static void* const wild[] = {NULL,          (void*)1,          (void*)0x7f, (void*)0x2ff,
                             (void*)0x1000, (void*)0xdeadbeef, (void*)-1};

static void test_communicator(void) {
  int data = 0, flag;
  MPI_Request request;
  MPI_Message message;
  CHECK_ERROR(MPI_Send(&data, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM,
              "MPI_Send: comm is MPI_COMM_NULL");
  CHECK_ERROR(MPI_Recv(&data, 1, MPI_INT, 0, 0, MPI_COMM_NULL, MPI_STATUS_IGNORE), MPI_ERR_COMM,
              "MPI_Recv: comm");
  CHECK_ERROR(MPI_Isend(&data, 1, MPI_INT, 0, 0, (MPI_Comm)MPI_INT, &request), MPI_ERR_COMM,
              "comm is a datatype");
  CHECK_ERROR(MPI_Irecv(&data, 1, MPI_INT, 0, 0, (MPI_Comm)MPI_SUM, &request), MPI_ERR_COMM,
              "comm is a reduction operation");
  CHECK_ERROR(MPI_Probe(0, 0, (MPI_Comm)MPI_GROUP_EMPTY, MPI_STATUS_IGNORE), MPI_ERR_COMM, "comm is a group");
  CHECK_ERROR(MPI_Iprobe(0, 0, MPI_COMM_NULL, &flag, MPI_STATUS_IGNORE), MPI_ERR_COMM, "MPI_Iprobe");
  CHECK_ERROR(MPI_Mprobe(0, 0, MPI_COMM_NULL, &message, MPI_STATUS_IGNORE), MPI_ERR_COMM, "MPI_Mprobe");
  CHECK_ERROR(MPI_Comm_call_errhandler(MPI_COMM_NULL, MPI_ERR_OTHER), MPI_ERR_COMM,
              "MPI_Comm_call_errhandler");
  for (size_t i = 0; i < sizeof wild / sizeof *wild; ++i) {
    CHECK_ERROR(MPI_Ssend(&data, 1, MPI_INT, 0, 0, (MPI_Comm)wild[i]), MPI_ERR_COMM, "MPI_Ssend: comm");
    CHECK_ERROR(MPI_Send(&data, 1, (MPI_Datatype)wild[i], 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE,
                "MPI_Send: datatype");
  }
  MPI_Comm comm, copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  copy = comm;
  MPI_Comm_free(&comm);
  CHECK_ERROR(MPI_Send(&data, 1, MPI_INT, 0, 0, copy), MPI_ERR_COMM, "has been freed");
}

static void test_rank(void) {
  int data = 0, flag;
  MPI_Request request;
  char text[40];
  snprintf(text, sizeof text, "MPI_Send: dest %d is not a rank", size);
  CHECK_ERROR(MPI_Send(&data, 1, MPI_INT, size, 0, MPI_COMM_WORLD), MPI_ERR_RANK, text);
  CHECK_ERROR(MPI_Send(&data, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "MPI_ANY_SOURCE");
  CHECK_ERROR(MPI_Ssend_c(&data, 1, MPI_INT, -5, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "MPI_Ssend_c: dest -5");
  CHECK_ERROR(MPI_Rsend(&data, 1, MPI_INT, 1 << 30, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "MPI_Rsend: dest");
  CHECK_ERROR(MPI_Bsend(&data, 1, MPI_INT, size, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "MPI_Bsend: dest");
  CHECK_ERROR(MPI_Issend(&data, 1, MPI_INT, size, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK,
              "MPI_Issend: dest");
  CHECK_ERROR(MPI_Recv(&data, 1, MPI_INT, size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_RANK,
              "MPI_Recv: source");
  CHECK_ERROR(MPI_Irecv(&data, 1, MPI_INT, -4, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK,
              "MPI_Irecv: source -4");
  CHECK_ERROR(MPI_Probe(size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_RANK, "MPI_Probe: source");
  CHECK_ERROR(MPI_Iprobe(-9, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE), MPI_ERR_RANK,
              "MPI_Iprobe: source -9");
  CHECK_ERROR(MPI_Send(&data, 1, MPI_INT, 1, 0, MPI_COMM_SELF), MPI_ERR_RANK, "which has 1 in its group");
  CHECK_ERROR(
      MPI_Sendrecv(&data, 1, MPI_INT, size, 0, &flag, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
      MPI_ERR_RANK, "dest");
  CHECK_ERROR(
      MPI_Sendrecv(&data, 1, MPI_INT, 0, 0, &flag, 1, MPI_INT, size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
      MPI_ERR_RANK, "source");
}

static void test_tag(void) {
  int data = 0, *tag_ub, flag;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_ub, &flag);
  MPI_Request request;
  CHECK_ERROR(MPI_Send(&data, 1, MPI_INT, 0, -7, MPI_COMM_WORLD), MPI_ERR_TAG,
              "MPI_Send: tag -7 is negative");
  CHECK_ERROR(MPI_Send(&data, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD), MPI_ERR_TAG, "MPI_ANY_TAG");
  CHECK_ERROR(MPI_Send(&data, 1, MPI_INT, MPI_PROC_NULL, -7, MPI_COMM_WORLD), MPI_ERR_TAG, "tag -7");
  if (*tag_ub < INT32_MAX)
    CHECK_ERROR(MPI_Isend(&data, 1, MPI_INT, 0, *tag_ub + 1, MPI_COMM_WORLD, &request), MPI_ERR_TAG,
                "MPI_TAG_UB");
  CHECK_ERROR(MPI_Recv(&data, 1, MPI_INT, 0, -3, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TAG,
              "MPI_Recv: tag -3");
  CHECK_ERROR(MPI_Irecv(&data, 1, MPI_INT, MPI_PROC_NULL, -3, MPI_COMM_WORLD, &request), MPI_ERR_TAG,
              "MPI_Irecv: tag");
  CHECK_ERROR(MPI_Iprobe(0, -3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE), MPI_ERR_TAG, "MPI_Iprobe: tag");
  CHECK_ERROR(
      MPI_Sendrecv(&data, 1, MPI_INT, 0, -1, &flag, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
      MPI_ERR_TAG, "sendtag -1");
  CHECK_ERROR(MPI_Sendrecv_replace(&data, 1, MPI_INT, 0, 0, 0, -5, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              MPI_ERR_TAG, "recvtag -5");
}

static void test_count_and_type(void) {
  int data = 0;
  MPI_Request request;
  MPI_Datatype type;
  CHECK_ERROR(MPI_Send(&data, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT,
              "MPI_Send: count -1 is negative");
  CHECK_ERROR(MPI_Recv_c(&data, -3, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_COUNT,
              "MPI_Recv_c: count -3");
  CHECK_ERROR(MPI_Send(&data, -1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "count");
  CHECK_ERROR(MPI_Isend_c(&data, INT64_MAX, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT,
              "MPI_Isend_c: count");
  CHECK_ERROR(MPI_Irecv_c(&data, INT64_MAX / 2, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT,
              "count");
  CHECK_ERROR(MPI_Send(&data, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
  CHECK_ERROR(MPI_Recv(&data, 1, (MPI_Datatype)MPI_COMM_WORLD, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              MPI_ERR_TYPE, "datatype is a communicator");
  CHECK_ERROR(
      MPI_Sendrecv(&data, 1, MPI_INT, 0, 0, &data, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
      MPI_ERR_COUNT, "recvcount");
  CHECK_ERROR(MPI_Sendrecv(&data, 1, MPI_DATATYPE_NULL, 0, 0, &data, 1, MPI_INT, 0, 0, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE),
              MPI_ERR_TYPE, "sendtype");
  MPI_Type_contiguous(2, MPI_INT, &type);
  CHECK_ERROR(MPI_Send(&data, 1, type, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "not committed");
  MPI_Datatype freed = type;
  MPI_Type_free(&type);
  CHECK_ERROR(MPI_Irecv(&data, 1, freed, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_TYPE, "has been freed");
}

static void test_buffer(void) {
  int data = 0;
  MPI_Request request;
  CHECK_ERROR(MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "MPI_Send: buf is null");
  CHECK_ERROR(MPI_Recv(NULL, 4, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_BUFFER,
              "MPI_Recv: buf");
  CHECK_ERROR(MPI_Isend(MPI_IN_PLACE, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER,
              "MPI_IN_PLACE");
  CHECK_ERROR(MPI_Irecv(MPI_BUFFER_AUTOMATIC, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER,
              "MPI_BUFFER_AUTOMATIC");
  CHECK_ERROR(
      MPI_Sendrecv(&data, 1, MPI_INT, 0, 0, NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
      MPI_ERR_BUFFER, "recvbuf");
  /* Nothing is read through a null buffer without data, nor through one with absolute addresses. */
  CHECK_MPI(
      MPI_Sendrecv(NULL, 0, MPI_INT, rank, 0, NULL, 0, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  MPI_Aint address;
  MPI_Datatype absolute;
  int length = 1, in = -1;
  data = 77;
  MPI_Get_address(&data, &address);
  MPI_Type_create_hindexed(1, &length, &address, MPI_INT, &absolute);
  MPI_Type_commit(&absolute);
  CHECK_MPI(MPI_Sendrecv(MPI_BOTTOM, 1, absolute, rank, 0, &in, 1, MPI_INT, rank, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE));
  CHECK_EQUAL(in, 77);
  MPI_Type_free(&absolute);
}

static void test_outputs(void) {
  int data = 0, flag, index;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Message message = MPI_MESSAGE_NULL;
  CHECK_ERROR(MPI_Isend(&data, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL), MPI_ERR_ARG,
              "MPI_Isend: request is a null pointer");
  CHECK_ERROR(MPI_Irecv(&data, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "MPI_Irecv: request");
  CHECK_ERROR(MPI_Iprobe(0, 0, MPI_COMM_WORLD, NULL, MPI_STATUS_IGNORE), MPI_ERR_ARG, "MPI_Iprobe: flag");
  CHECK_ERROR(MPI_Wait(NULL, MPI_STATUS_IGNORE), MPI_ERR_ARG, "MPI_Wait: request");
  CHECK_ERROR(MPI_Test(&request, NULL, MPI_STATUS_IGNORE), MPI_ERR_ARG, "MPI_Test: flag");
  CHECK_ERROR(MPI_Waitall(-1, &request, MPI_STATUSES_IGNORE), MPI_ERR_COUNT, "MPI_Waitall: count -1");
  CHECK_ERROR(MPI_Waitall(2, NULL, MPI_STATUSES_IGNORE), MPI_ERR_ARG, "array_of_requests");
  CHECK_ERROR(MPI_Waitany(1, &request, NULL, MPI_STATUS_IGNORE), MPI_ERR_ARG, "index");
  CHECK_ERROR(MPI_Testany(1, &request, &index, NULL, MPI_STATUS_IGNORE), MPI_ERR_ARG, "flag");
  CHECK_ERROR(MPI_Waitsome(1, &request, NULL, &index, MPI_STATUSES_IGNORE), MPI_ERR_ARG, "outcount");
  CHECK_ERROR(MPI_Waitsome(-2, &request, &flag, &index, MPI_STATUSES_IGNORE), MPI_ERR_COUNT, "incount -2");
  CHECK_ERROR(MPI_Testsome(1, &request, &flag, NULL, MPI_STATUSES_IGNORE), MPI_ERR_ARG, "array_of_indices");
  CHECK_ERROR(MPI_Mrecv(&data, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_REQUEST,
              "MPI_Mrecv: message is MPI_MESSAGE_NULL");
  CHECK_ERROR(MPI_Imrecv(&data, 1, MPI_INT, NULL, &request), MPI_ERR_ARG, "message");
  message = (MPI_Message)wild[5];
  CHECK_ERROR(MPI_Imrecv(&data, 1, MPI_INT, &message, &request), MPI_ERR_REQUEST, "MPI_Imrecv: message");
  CHECK_ERROR(MPI_Test_cancelled(NULL, &flag), MPI_ERR_ARG, "status");
  CHECK_ERROR(MPI_Query_thread(NULL), MPI_ERR_ARG, "MPI_Query_thread: provided");
}

static void test_environment(void) {
  int value;
  void* memory = NULL;
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  CHECK_ERROR(MPI_Alloc_mem(-1, MPI_INFO_NULL, &memory), MPI_ERR_ARG, "MPI_Alloc_mem: size -1");
  CHECK_ERROR(MPI_Alloc_mem(8, MPI_INFO_NULL, NULL), MPI_ERR_ARG, "baseptr");
  CHECK_ERROR(MPI_Alloc_mem(8, (MPI_Info)MPI_INT, &memory), MPI_ERR_INFO, "info is a datatype");
#ifndef ADDRESS_SANITIZER /* which ends the program here */
  CHECK_ERROR(MPI_Alloc_mem((MPI_Aint)1 << 60, MPI_INFO_NULL, &memory), MPI_ERR_NO_MEM, "MPI_Alloc_mem");
#endif
  CHECK_ERROR(MPI_Free_mem(&value), MPI_ERR_BASE, "MPI_Free_mem");
  CHECK_MPI(MPI_Alloc_mem(8, MPI_INFO_NULL, &memory));
  CHECK_MPI(MPI_Free_mem(memory));
  CHECK_ERROR(MPI_Free_mem(memory), MPI_ERR_BASE, "freed before");
  CHECK_ERROR(MPI_Error_class(-5, &value), MPI_ERR_ARG, "MPI_Error_class: errorcode -5");
  CHECK_ERROR(MPI_Error_class(1 << 29, &value), MPI_ERR_ARG, "errorcode");
  char text[MPI_MAX_ERROR_STRING];
  CHECK_ERROR(MPI_Error_string(-5, text, &value), MPI_ERR_ARG, "MPI_Error_string");
  CHECK_ERROR(MPI_Error_string(MPI_ERR_TAG, NULL, &value), MPI_ERR_ARG, "string");
  CHECK_ERROR(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler), MPI_ERR_ERRHANDLER, "MPI_ERRHANDLER_NULL");
  CHECK_ERROR(MPI_Errhandler_free(&handler), MPI_ERR_ERRHANDLER, "MPI_Errhandler_free");
  CHECK_ERROR(MPI_Comm_create_errhandler(NULL, &handler), MPI_ERR_ARG, "comm_errhandler_fn");
  CHECK_ERROR(MPI_Comm_call_errhandler(MPI_COMM_WORLD, -1), MPI_ERR_ARG, "errorcode -1");
  CHECK_ERROR(MPI_Add_error_code(0x7fff, &value), MPI_ERR_ARG, "errorclass");
  CHECK_ERROR(MPI_Add_error_string(MPI_ERR_TAG, "mine"), MPI_ERR_ARG, "predefined");
}

/* A message that is too long fills the buffer and no more, at every size. */
static void test_truncation(void) {
  static const int lengths[] = {2, 12, 100, 5000, 100000};
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  for (int i = 0; i < 5; ++i) {
    const int length = lengths[i], room = length / 2;
    int *out = malloc(sizeof(int) * (size_t)length), *in = calloc((size_t)length, sizeof(int)), count;
    for (int k = 0; k < length; ++k)
      out[k] = rank + k + 1;
    MPI_Request send;
    MPI_Status status;
    for (int unexpected = 0; unexpected < 2; ++unexpected) {
      MPI_Request receive = MPI_REQUEST_NULL;
      memset(in, 0, sizeof(int) * (size_t)length);
      if (!unexpected) MPI_Irecv(in, room, MPI_INT, left, 3, MPI_COMM_WORLD, &receive);
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Isend(out, length, MPI_INT, right, 3, MPI_COMM_WORLD, &send);
      if (unexpected) {
        MPI_Probe(left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_ERROR(MPI_Recv(in, room, MPI_INT, left, 3, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE,
                    "MPI_Recv");
      } else {
        CHECK_ERROR(MPI_Wait(&receive, &status), MPI_ERR_TRUNCATE, "MPI_Wait");
        CHECK(receive == MPI_REQUEST_NULL);
      }
      CHECK_MPI(MPI_Wait(&send, MPI_STATUS_IGNORE));
      CHECK_EQUAL(status.MPI_SOURCE, left);
      CHECK_EQUAL(status.MPI_TAG, 3);
      MPI_Get_count(&status, MPI_INT, &count);
      CHECK_EQUAL(count, room);
      for (int k = 0; k < length; ++k)
        CHECK_EQUAL(in[k], k < room ? left + k + 1 : 0);
    }
    free(out);
    free(in);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  test_communicator();
  test_rank();
  test_tag();
  test_count_and_type();
  test_buffer();
  test_outputs();
  test_environment();
  test_truncation();
  /* After all that, messages go as ever. */
  int in = -1;
  CHECK_MPI(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &in, 1, MPI_INT, (rank + size - 1) % size,
                         0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  CHECK_EQUAL(in, (rank + size - 1) % size);
  MPI_Finalize();
  return 0;
}
