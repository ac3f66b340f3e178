/* Messages between two ranks on one communicator do not overtake (MPI 5.0, section 3.5): mixed sizes, tags
   and wildcards; and messages of different communicators never meet. */
#include "../check.h"

enum { messages = 200, big = 20000 };

static int rank, size;

/* Sizes that take different paths, so that a later message could arrive first. */
static int length_of(int serial) {
  static const int lengths[] = {1, big, 3, 700, 9, big / 2, 1, 1};
  return lengths[serial % 8];
}

static void send_all(int to, MPI_Comm comm) {
  int* data = malloc(sizeof(int) * big);
  for (int i = 0; i < messages; ++i) {
    for (int k = 0; k < length_of(i); ++k)
      data[k] = rank * 100000 + i;
    CHECK_MPI(MPI_Send(data, length_of(i), MPI_INT, to, i % 3, comm));
  }
  free(data);
}

/* Everybody to rank 0, which receives from anybody: per sender the order is kept. */
static void test_any_source(void) {
  if (rank != 0) {
    send_all(0, MPI_COMM_WORLD);
    return;
  }
  int *data = malloc(sizeof(int) * big), *next = calloc((size_t)size, sizeof(int));
  for (int i = 0; i < (size - 1) * messages; ++i) {
    MPI_Status status;
    int count;
    CHECK_MPI(MPI_Recv(data, big, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
    CHECK(status.MPI_SOURCE > 0 && status.MPI_SOURCE < size);
    const int serial = next[status.MPI_SOURCE]++;
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK_EQUAL(status.MPI_TAG, serial % 3);
    CHECK_EQUAL(count, length_of(serial));
    CHECK_EQUAL(data[0], status.MPI_SOURCE * 100000 + serial);
    CHECK_EQUAL(data[count - 1], status.MPI_SOURCE * 100000 + serial);
  }
  free(data);
  free(next);
}

/* Receives of one tag before those of another: within each tag the order is kept. */
static void test_by_tag(void) {
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  if (size == 1) return;
  MPI_Request* requests = malloc(sizeof(MPI_Request) * messages);
  int** in = malloc(sizeof(int*) * messages);
  for (int tag = 2, posted = 0; tag >= 0; --tag) {
    for (int i = tag; i < messages; i += 3, ++posted) {
      in[i] = malloc(sizeof(int) * (size_t)length_of(i));
      CHECK_MPI(MPI_Irecv(in[i], length_of(i), MPI_INT, from, tag, MPI_COMM_WORLD, &requests[posted]));
    }
  }
  send_all(to, MPI_COMM_WORLD);
  CHECK_MPI(MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < messages; ++i) {
    CHECK_EQUAL(in[i][0], from * 100000 + i);
    CHECK_EQUAL(in[i][length_of(i) - 1], from * 100000 + i);
    free(in[i]);
  }
  free(in);
  free(requests);
}

/* A wildcard receive and one for a source, posted in turns: the oldest that matches gets the message. */
static void test_posted_order(void) {
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Request requests[30];
  int in[30];
  for (int i = 0; i < 30; ++i)
    CHECK_MPI(MPI_Irecv(&in[i], 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : from, i % 5 ? 7 : MPI_ANY_TAG,
                        MPI_COMM_WORLD, &requests[i]));
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 30; ++i)
    CHECK_MPI(MPI_Send(&i, 1, MPI_INT, to, 7, MPI_COMM_WORLD));
  CHECK_MPI(MPI_Waitall(30, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < 30; ++i)
    CHECK_EQUAL(in[i], i);
}

static void test_communicators(void) {
  MPI_Comm first, second;
  MPI_Comm_dup(MPI_COMM_WORLD, &first);
  MPI_Comm_dup(MPI_COMM_WORLD, &second);
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  int one = 1, two = 2, three = 3, got = 0, flag;
  MPI_Request request;
  CHECK_MPI(MPI_Isend(&one, 1, MPI_INT, to, 0, first, &request));
  CHECK_MPI(MPI_Request_free(&request));
  CHECK_MPI(MPI_Isend(&two, 1, MPI_INT, to, 0, second, &request));
  CHECK_MPI(MPI_Request_free(&request));
  CHECK_MPI(MPI_Isend(&three, 1, MPI_INT, to, 0, MPI_COMM_WORLD, &request));
  CHECK_MPI(MPI_Request_free(&request));
  CHECK_MPI(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  CHECK_EQUAL(got, 3);
  CHECK_MPI(MPI_Recv(&got, 1, MPI_INT, from, 0, second, MPI_STATUS_IGNORE));
  CHECK_EQUAL(got, 2);
  CHECK_MPI(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 0, first, MPI_STATUS_IGNORE));
  CHECK_EQUAL(got, 1);
  CHECK_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, first, &flag, MPI_STATUS_IGNORE));
  CHECK(!flag);
  MPI_Comm_free(&first);
  MPI_Comm_free(&second);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test_any_source();
  MPI_Barrier(MPI_COMM_WORLD);
  test_by_tag();
  MPI_Barrier(MPI_COMM_WORLD);
  test_posted_order();
  MPI_Barrier(MPI_COMM_WORLD);
  test_communicators();
  MPI_Finalize();
  return 0;
}
