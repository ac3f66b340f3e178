/* Every send mode, blocking and not, into blocking and nonblocking receives, at sizes on both sides of every
   protocol switch, with contiguous and strided data; each byte and each status is checked. */
#include "../check.h"

static int rank, size;

/* What byte `i` of message `serial` from `from` is. */
static unsigned char pattern(int from, int serial, size_t i) {
  return (unsigned char)(i * 7 + (size_t)from * 31 + (size_t)serial * 13 + (i >> 9));
}

enum { modes = 8 };

static void start_send(int mode, const void* data, int count, MPI_Datatype type, int to, int tag,
                       MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  switch (mode) {
    case 0:
      CHECK_MPI(MPI_Send(data, count, type, to, tag, MPI_COMM_WORLD));
      break;
    case 1:
      CHECK_MPI(MPI_Ssend(data, count, type, to, tag, MPI_COMM_WORLD));
      break;
    case 2:
      CHECK_MPI(MPI_Bsend(data, count, type, to, tag, MPI_COMM_WORLD));
      break;
    case 3:
      CHECK_MPI(MPI_Rsend_c(data, count, type, to, tag, MPI_COMM_WORLD));
      break;
    case 4:
      CHECK_MPI(MPI_Isend(data, count, type, to, tag, MPI_COMM_WORLD, request));
      break;
    case 5:
      CHECK_MPI(MPI_Issend_c(data, count, type, to, tag, MPI_COMM_WORLD, request));
      break;
    case 6:
      CHECK_MPI(MPI_Ibsend(data, count, type, to, tag, MPI_COMM_WORLD, request));
      break;
    default:
      CHECK_MPI(MPI_Irsend(data, count, type, to, tag, MPI_COMM_WORLD, request));
      break;
  }
}

/* One message to the right neighbour and one from the left: `bytes` of data, every `stride`-th byte of the
   buffers. */
static void exchange(int mode, size_t bytes, int stride, int serial) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  const size_t room = bytes * (size_t)stride + 1;
  unsigned char *out = malloc(room), *in = malloc(room);
  memset(in, 0xee, room);
  memset(out, 0x11, room);
  for (size_t i = 0; i < bytes; ++i)
    out[i * (size_t)stride] = pattern(rank, serial, i);
  MPI_Datatype type = MPI_BYTE;
  int count = (int)bytes;
  if (stride > 1 && bytes > 0) {
    MPI_Type_vector((int)bytes, 1, stride, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    count = 1;
  }
  /* A ready send needs its receive posted, and a send that waits for its match must not keep all ranks. */
  MPI_Request receive, send;
  CHECK_MPI(MPI_Irecv(in, count, type, left, serial, MPI_COMM_WORLD, &receive));
  if (mode == 3 || mode == 7) MPI_Barrier(MPI_COMM_WORLD);
  start_send(mode, out, count, type, right, serial, &send);
  MPI_Status status = {.MPI_ERROR = 77};
  CHECK_MPI(MPI_Wait(&receive, &status));
  CHECK(receive == MPI_REQUEST_NULL);
  CHECK_EQUAL(status.MPI_SOURCE, left);
  CHECK_EQUAL(status.MPI_TAG, serial);
  CHECK_EQUAL(status.MPI_ERROR, 77);
  int received, cancelled;
  CHECK_MPI(MPI_Get_count(&status, type, &received));
  CHECK_EQUAL(received, count);
  CHECK_MPI(MPI_Test_cancelled(&status, &cancelled));
  CHECK(!cancelled);
  CHECK_MPI(MPI_Wait(&send, MPI_STATUS_IGNORE));
  for (size_t i = 0; i < bytes; ++i) {
    CHECK_EQUAL(in[i * (size_t)stride], pattern(left, serial, i));
    for (int gap = 1; gap < stride && i + 1 < bytes; ++gap)
      CHECK_EQUAL(in[i * (size_t)stride + (size_t)gap], 0xee);
  }
  CHECK_EQUAL(in[room - 1], 0xee);
  if (type != MPI_BYTE) MPI_Type_free(&type);
  free(out);
  free(in);
}

/* Blocking receives, in both orders of send and receive. */
static void blocking(size_t bytes, int serial) {
  const int partner = rank ^ 1;
  if (partner >= size) return;
  unsigned char* data = malloc(bytes + 1);
  for (int turn = 0; turn < 2; ++turn) {
    MPI_Status status;
    if ((rank & 1) == turn) {
      for (size_t i = 0; i < bytes; ++i)
        data[i] = pattern(rank, serial, i);
      CHECK_MPI(MPI_Ssend(data, (int)bytes, MPI_BYTE, partner, serial, MPI_COMM_WORLD));
    } else {
      data[bytes] = 0xee;
      CHECK_MPI(MPI_Recv_c(data, (MPI_Count)bytes, MPI_BYTE, partner, serial, MPI_COMM_WORLD, &status));
      MPI_Count received;
      CHECK_MPI(MPI_Get_count_c(&status, MPI_BYTE, &received));
      CHECK_EQUAL(received, bytes);
      for (size_t i = 0; i < bytes; ++i)
        CHECK_EQUAL(data[i], pattern(partner, serial, i));
      CHECK_EQUAL(data[bytes], 0xee);
    }
  }
  free(data);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int buffer_size = 4 << 20;
  void* buffer = malloc((size_t)buffer_size);
  CHECK_MPI(MPI_Buffer_attach(buffer, buffer_size));

  static const size_t sizes[] = {0,    1,    8,     31,    40,    41,     64,      100,
                                 1000, 4096, 16384, 16385, 65536, 300000, 1 << 20, 3000001};
  int serial = 0;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    for (int mode = 0; mode < modes; ++mode) {
      exchange(mode, sizes[s], 1, serial++);
      if (sizes[s] <= 65536) exchange(mode, sizes[s], 3, serial++);
    }
    blocking(sizes[s], serial++);
  }

  void* detached;
  int detached_size;
  CHECK_MPI(MPI_Buffer_detach(&detached, &detached_size));
  CHECK(detached == buffer);
  CHECK_EQUAL(detached_size, buffer_size);
  free(buffer);
  MPI_Finalize();
  return 0;
}
