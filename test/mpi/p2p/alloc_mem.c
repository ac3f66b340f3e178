/* Messages out of memory of MPI_Alloc_mem, which receivers on the same host may map: of any size, from
   anywhere in it, into any layout, of memory that is freed and made again between them, in every mode of
   sending. ranks: 1 2 3 5 */
#include <stdint.h>
#include <sys/wait.h>

#include "../check.h"

static int rank, size, left, right;

static unsigned char expected(size_t at, int from, unsigned round) {
  const unsigned word = ((unsigned)at + (unsigned)from * 40503u + round * 977u) * 2654435761u;
  return (unsigned char)(word >> 24 ^ word >> 11);
}

static void fill(unsigned char* data, size_t bytes, unsigned round) {
  for (size_t i = 0; i < bytes; ++i)
    data[i] = expected(i, rank, round);
}

/* All that `left` has sent from `offset` on. */
static void check(const unsigned char* data, size_t offset, size_t bytes, unsigned round) {
  size_t wrong = 0;
  for (size_t i = 0; i < bytes; ++i)
    wrong += data[i] != expected(offset + i, left, round);
  CHECK_EQUAL(wrong, 0);
}

static unsigned char* allocate(size_t bytes) {
  unsigned char* memory = NULL;
  CHECK_MPI(MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory));
  return memory;
}

static void exchange(const unsigned char* out, unsigned char* in, size_t bytes) {
  CHECK_MPI(MPI_Sendrecv(out, (int)bytes, MPI_BYTE, right, 1, in, (int)bytes, MPI_BYTE, left, 1,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/* Around each size at which the way may change, from the first byte, the middle, and up to the last one. */
static void test_sizes(void) {
  enum { room = 300000 };
  unsigned char* out = allocate(room);
  unsigned char* in = allocate(room);
  static const size_t sizes[] = {0, 1, 32, 33, 4096, 16384, 16385, 65536, 65537, 200001, room};
  unsigned round = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    const size_t offsets[] = {0, 1, 4095, (room - sizes[i]) / 2, room - sizes[i]};
    for (size_t j = 0; j < sizeof offsets / sizeof *offsets; ++j) {
      if (offsets[j] + sizes[i] > room) continue;
      fill(out, room, ++round);
      memset(in, 0, room);
      exchange(out + offsets[j], in, sizes[i]);
      check(in, offsets[j], sizes[i], round);
      CHECK(sizes[i] == room || in[sizes[i]] == 0);
    }
  }
  CHECK_MPI(MPI_Free_mem(out));
  CHECK_MPI(MPI_Free_mem(in));
}

/* Memory that is freed and made again lies at the same address, or not: what is in it now is what arrives. */
static void test_made_again(void) {
  enum { most = 1 << 20 };
  unsigned char* in = malloc(most);
  for (unsigned round = 0; round < 40; ++round) {
    const size_t bytes = (size_t)40000 << round % 5;
    unsigned char* out = allocate(bytes);
    fill(out, bytes, round);
    exchange(out, in, bytes);
    check(in, 0, bytes, round);
    CHECK_MPI(MPI_Free_mem(out));
  }
  free(in);
}

/* More at a time than a receiver keeps mapped, twice in turn; what is beyond that comes another way. */
static void test_many(void) {
  enum { count = 300, bytes = 20000 };
  static unsigned char* out[count];
  unsigned char in[bytes];
  for (int i = 0; i < count; ++i)
    out[i] = allocate(bytes);
  for (unsigned turn = 0; turn < 2; ++turn)
    for (int i = 0; i < count; ++i) {
      const unsigned round = turn * count + (unsigned)i;
      fill(out[i], bytes, round);
      exchange(out[i], in, bytes);
      check(in, 0, bytes, round);
    }
  for (int i = 0; i < count; ++i)
    CHECK_MPI(MPI_Free_mem(out[i]));
}

/* A layout with gaps on either side. */
static void test_layouts(void) {
  enum { blocks = 20000, block = 3, stride = 5 };
  MPI_Datatype gaps;
  MPI_Type_vector(blocks, block, stride, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  int* out = (int*)(void*)allocate(sizeof(int) * blocks * stride);
  int* in = (int*)(void*)allocate(sizeof(int) * blocks * stride);
  for (int way = 0; way < 4; ++way) {
    const int sends_gaps = way & 1, takes_gaps = way >> 1;
    for (int i = 0; i < blocks * stride; ++i) {
      out[i] = rank * 1000000 + i;
      in[i] = -1;
    }
    CHECK_MPI(MPI_Sendrecv(out, sends_gaps ? 1 : blocks * block, sends_gaps ? gaps : MPI_INT, right, 2, in,
                           takes_gaps ? 1 : blocks * block, takes_gaps ? gaps : MPI_INT, left, 2,
                           MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    long wrong = 0;
    for (int i = 0; i < blocks * block; ++i) {
      const int from = sends_gaps ? i / block * stride + i % block : i;
      const int to = takes_gaps ? i / block * stride + i % block : i;
      wrong += in[to] != left * 1000000 + from;
    }
    for (int i = 0; takes_gaps && i < blocks; ++i)
      wrong += in[i * stride + block] != -1;
    CHECK_EQUAL(wrong, 0);
  }
  CHECK_MPI(MPI_Free_mem(out));
  CHECK_MPI(MPI_Free_mem(in));
  MPI_Type_free(&gaps);
}

static void test_modes(void) {
  enum { bytes = 100000 };
  unsigned char* out = allocate(bytes);
  unsigned char* in = allocate(bytes);
  MPI_Request requests[2];
  MPI_Status status;
  int flag = 0, count = 0;
  /* persistent: what is in the buffer at each start */
  MPI_Send_init(out, bytes, MPI_BYTE, right, 3, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(in, bytes, MPI_BYTE, left, 3, MPI_COMM_WORLD, &requests[1]);
  for (unsigned round = 0; round < 5; ++round) {
    fill(out, bytes, round);
    CHECK_MPI(MPI_Startall(2, requests));
    CHECK_MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    check(in, 0, bytes, round);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  /* synchronous, with and without bytes; matched before and after it is sent */
  for (int late = 0; late < 2; ++late)
    for (int full = 0; full < 2; ++full) {
      const int length = full ? bytes : 0;
      fill(out, bytes, 77);
      memset(in, 0, bytes);
      if (!late) MPI_Irecv(in, length, MPI_BYTE, left, 4, MPI_COMM_WORLD, &requests[1]);
      MPI_Barrier(MPI_COMM_WORLD);
      CHECK_MPI(MPI_Issend(out, length, MPI_BYTE, right, 4, MPI_COMM_WORLD, &requests[0]));
      MPI_Barrier(MPI_COMM_WORLD);
      if (late) {
        CHECK_MPI(MPI_Probe(left, 4, MPI_COMM_WORLD, &status));
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK_EQUAL(count, length);
        MPI_Irecv(in, length, MPI_BYTE, left, 4, MPI_COMM_WORLD, &requests[1]);
      }
      CHECK_MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
      check(in, 0, (size_t)length, 77);
    }
  /* taken back before it is matched: what comes next is the next */
  fill(out, bytes, 78);
  MPI_Issend(out, bytes, MPI_BYTE, right, 5, MPI_COMM_WORLD, &requests[0]);
  CHECK_MPI(MPI_Cancel(&requests[0]));
  CHECK_MPI(MPI_Wait(&requests[0], &status));
  MPI_Test_cancelled(&status, &flag);
  CHECK(flag);
  MPI_Barrier(MPI_COMM_WORLD); /* nobody receives before all have taken theirs back */
  fill(out, bytes, 79);
  MPI_Isend(out, bytes, MPI_BYTE, right, 5, MPI_COMM_WORLD, &requests[0]);
  CHECK_MPI(MPI_Recv(in, bytes, MPI_BYTE, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  check(in, 0, bytes, 79);
  CHECK_MPI(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  /* longer than the receive */
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  memset(in, 0, bytes);
  MPI_Isend(out, bytes, MPI_BYTE, right, 6, MPI_COMM_WORLD, &requests[0]);
  CHECK_ERROR(MPI_Recv(in, bytes / 2, MPI_BYTE, left, 6, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE, "");
  check(in, 0, bytes / 2, 79);
  CHECK_EQUAL(in[bytes / 2], 0);
  CHECK_MPI(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  CHECK_MPI(MPI_Free_mem(out));
  CHECK_MPI(MPI_Free_mem(in));
}

static void test_alignment(void) {
  static const char* const wanted[] = {"64", "65536", "4194304", "33554432", "12345", "nonsense"};
  static const uintptr_t least[] = {4096, 65536, 4194304, 33554432, 4096, 4096};
  static const MPI_Aint sizes[] = {0, 1, 100, 40000, 3000000};
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 5; ++j) {
      MPI_Info info;
      unsigned char* memory = NULL;
      MPI_Info_create(&info);
      MPI_Info_set(info, "mpi_minimum_memory_alignment", wanted[i]);
      CHECK_MPI(MPI_Alloc_mem(sizes[j], info, &memory));
      MPI_Info_free(&info);
      CHECK(memory != NULL);
      CHECK_EQUAL((uintptr_t)memory % least[i], 0);
      if (sizes[j] > 0) memory[0] = memory[sizes[j] - 1] = 1;
      CHECK_MPI(MPI_Free_mem(memory));
    }
}

static void test_errors(void) {
  unsigned char* memory = NULL;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
#ifndef ADDRESS_SANITIZER /* which ends a program that asks malloc for as much */
  static const MPI_Aint too_large[] = {(MPI_Aint)1 << 46, (MPI_Aint)1 << 50, INTPTR_MAX};
  for (int i = 0; i < 3; ++i)
    CHECK_ERROR(MPI_Alloc_mem(too_large[i], MPI_INFO_NULL, &memory), MPI_ERR_NO_MEM, "");
#endif
  memory = allocate(100000);
  CHECK_ERROR(MPI_Free_mem(memory + 4096), MPI_ERR_BASE, "");
  CHECK_MPI(MPI_Free_mem(memory));
  CHECK_ERROR(MPI_Free_mem(memory), MPI_ERR_BASE, "");
}

/* The child of a fork has memory of its own: what it writes there no other process sees. */
static void test_fork(void) {
  enum { bytes = 100000 };
  unsigned char* out = allocate(bytes);
  unsigned char* in = allocate(bytes);
  fill(out, bytes, 5);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    int right_here = out[0] == expected(0, rank, 5) && out[bytes - 1] == expected(bytes - 1, rank, 5);
    memset(out, 0, bytes);
    for (size_t i = 0; i < bytes; ++i)
      right_here = right_here && out[i] == 0;
    _exit(right_here ? 0 : 1);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK_EQUAL(status, 0);
  exchange(out, in, bytes);
  check(in, 0, bytes, 5);
  CHECK_MPI(MPI_Free_mem(out));
  CHECK_MPI(MPI_Free_mem(in));
}

/* One buffer, to all others at once. */
static void test_everybody(void) {
  enum { bytes = 1 << 20 };
  unsigned char* out = allocate(bytes);
  MPI_Request requests[16];
  fill(out, bytes, 9);
  for (int i = 0; i < size; ++i)
    MPI_Isend(out, bytes, MPI_BYTE, i, 7, MPI_COMM_WORLD, &requests[i]);
  unsigned char* in = malloc(bytes);
  for (int i = 0; i < size; ++i) {
    CHECK_MPI(MPI_Recv(in, bytes, MPI_BYTE, i, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    size_t wrong = 0;
    for (size_t at = 0; at < bytes; ++at)
      wrong += in[at] != expected(at, i, 9);
    CHECK_EQUAL(wrong, 0);
  }
  MPI_Waitall(size, requests, MPI_STATUSES_IGNORE);
  free(in);
  CHECK_MPI(MPI_Free_mem(out));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  right = (rank + 1) % size;
  left = (rank + size - 1) % size;
  test_sizes();
  test_made_again();
  test_many();
  test_layouts();
  test_modes();
  test_alignment();
  test_errors();
  test_fork();
  test_everybody();
  /* Not freed: it goes with the process. */
  unsigned char* kept = allocate(50000);
  unsigned char* in = malloc(50000);
  fill(kept, 50000, 3);
  exchange(kept, in, 50000);
  check(in, 0, 50000, 3);
  free(in);
  MPI_Finalize();
  CHECK_EQUAL(kept[0], expected(0, rank, 3));
  return 0;
}
