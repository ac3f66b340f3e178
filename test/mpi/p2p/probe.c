/* Probe, Iprobe and the matched forms: what they report, that a matched message is out of matching, and that
   a message is received into less and into more than it has. */
#include "../check.h"

static int rank, size, left, right;

static void test_probe(int elements) {
  int *out = malloc(sizeof(int) * (size_t)elements), *in = malloc(sizeof(int) * (size_t)elements);
  for (int i = 0; i < elements; ++i)
    out[i] = rank * 1000 + i;
  MPI_Request send;
  MPI_Status status;
  int count, flag = 0;
  MPI_Isend(out, elements, MPI_INT, right, 5, MPI_COMM_WORLD, &send);
  CHECK_MPI(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
  CHECK_EQUAL(status.MPI_SOURCE, left);
  CHECK_EQUAL(status.MPI_TAG, 5);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK_EQUAL(count, elements);
  /* Once seen it stays to be seen. */
  CHECK_MPI(MPI_Iprobe(left, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
  CHECK(flag);
  CHECK_MPI(MPI_Iprobe(left, 6, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
  CHECK(!flag);
  CHECK_MPI(MPI_Recv(in, elements, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status));
  for (int i = 0; i < elements; ++i)
    CHECK_EQUAL(in[i], left * 1000 + i);
  MPI_Wait(&send, MPI_STATUS_IGNORE);
  free(out);
  free(in);
}

/* Two messages of the same envelope: the first is matched and held, the second received before it. */
static void test_matched(int elements, int nonblocking) {
  int *out = malloc(sizeof(int) * (size_t)elements), *in = malloc(sizeof(int) * (size_t)elements);
  int second = -rank, got = 1, count;
  for (int i = 0; i < elements; ++i)
    out[i] = rank * 1000 + i;
  MPI_Request sends[2], request;
  MPI_Status status;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Isend(out, elements, MPI_INT, right, 5, MPI_COMM_WORLD, &sends[0]);
  MPI_Isend(&second, 1, MPI_INT, right, 5, MPI_COMM_WORLD, &sends[1]);
  if (nonblocking) {
    int flag = 0;
    while (!flag)
      CHECK_MPI(MPI_Improbe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, &message, &status));
  } else {
    CHECK_MPI(MPI_Mprobe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status));
  }
  CHECK(message != MPI_MESSAGE_NULL && message != MPI_MESSAGE_NO_PROC);
  CHECK(MPI_Message_fromint(MPI_Message_toint(message)) == message);
  CHECK_EQUAL(status.MPI_SOURCE, left);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK_EQUAL(count, elements);
  CHECK_MPI(MPI_Recv(&got, 1, MPI_INT, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  CHECK_EQUAL(got, -left);
  if (nonblocking) {
    CHECK_MPI(MPI_Imrecv(in, elements, MPI_INT, &message, &request));
    CHECK(message == MPI_MESSAGE_NULL);
    CHECK_MPI(MPI_Wait(&request, &status));
  } else {
    CHECK_MPI(MPI_Mrecv(in, elements, MPI_INT, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL);
  }
  CHECK_EQUAL(status.MPI_SOURCE, left);
  CHECK_EQUAL(status.MPI_TAG, 5);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK_EQUAL(count, elements);
  for (int i = 0; i < elements; ++i)
    CHECK_EQUAL(in[i], left * 1000 + i);
  CHECK_MPI(MPI_Waitall(2, sends, MPI_STATUSES_IGNORE));
  free(out);
  free(in);
}

/* A message taken by a probe keeps its communicator alive. */
static void test_outlives_communicator(void) {
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Request send;
  MPI_Message message;
  int in = -1;
  MPI_Isend(&rank, 1, MPI_INT, right, 1, copy, &send);
  MPI_Mprobe(left, 1, copy, &message, MPI_STATUS_IGNORE);
  MPI_Comm_free(&copy);
  CHECK_MPI(MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
  CHECK_EQUAL(in, left);
  MPI_Wait(&send, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  right = (rank + 1) % size;
  left = (rank + size - 1) % size;
  static const int lengths[] = {1, 20, 1000, 200000};
  for (int i = 0; i < 4; ++i) {
    test_probe(lengths[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    test_matched(lengths[i], 0);
    MPI_Barrier(MPI_COMM_WORLD);
    test_matched(lengths[i], 1);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  test_outlives_communicator();
  MPI_Finalize();
  return 0;
}
