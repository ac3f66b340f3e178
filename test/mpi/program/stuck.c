/* Hangs the way that its first argument says, for suite `stuck`. */
#include "../check.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static int rank, size;
static char data[1 << 20];

static void never_end(void) {
  for (;;)
    pause();
}

static int is(const char* way, const char* name) {
  return !strcmp(way, name);
}

static void messages(const char* way) {
  const int right = (rank + 1) % size;
  if (is(way, "tag")) { /* 0 sends tag 8, 1 waits for tag 7 */
    if (rank == 0) MPI_Send(data, 8, MPI_CHAR, 1, 8, MPI_COMM_WORLD);
    if (rank <= 1) MPI_Recv(data, 8, MPI_CHAR, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (is(way, "circle")) /* each waits for its right neighbour */
    MPI_Recv(data, 4, MPI_INT, right, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (is(way, "sends")) /* each sends what is too long to leave by itself */
    MPI_Ssend(data, sizeof data, MPI_CHAR, right, 4, MPI_COMM_WORLD);
  if (is(way, "probe")) MPI_Probe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (is(way, "waitany") || is(way, "waitall")) {
    MPI_Request requests[2];
    MPI_Irecv(data, 1, MPI_CHAR, right, 10, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(data + 1, 1, MPI_CHAR, right, 11, MPI_COMM_WORLD, &requests[1]);
    int index;
    if (is(way, "waitany")) MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  if (is(way, "persistent")) {
    MPI_Request request;
    MPI_Recv_init(data, 1, MPI_CHAR, right, 12, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  if (is(way, "comm")) { /* sent on another communicator */
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_set_name(other, "the \033[31mother\n");
    if (rank == 0) MPI_Send(data, 1, MPI_CHAR, 1, 6, other);
    if (rank <= 1) MPI_Recv(data, 1, MPI_CHAR, 1 - rank, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static void collectives(const char* way) {
  int sum = 0, one = 1;
  MPI_Barrier(MPI_COMM_WORLD);
  if (is(way, "late") || is(way, "stopped")) { /* the last does not come */
    if (rank == size - 1 && is(way, "stopped")) raise(SIGSTOP);
    if (rank == size - 1)
      for (volatile int spin = 0;; ++spin) {
      }
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  if (is(way, "crossed")) { /* one waits for a message of one that waits in a barrier */
    if (rank == 0) MPI_Recv(data, 1, MPI_CHAR, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (is(way, "icollective")) {
    MPI_Request request;
    if (rank == 0) never_end();
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  if (is(way, "bcast")) { /* the root does not come */
    if (rank == 0) never_end();
    MPI_Bcast(data, 1000, MPI_CHAR, 0, MPI_COMM_WORLD);
  }
  if (is(way, "split")) {
    MPI_Comm other;
    if (rank == 0) never_end();
    MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &other);
  }
  if (is(way, "misfit")) { /* on intercommunicators nobody compares calls */
    MPI_Comm half, both;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 1, &both);
    if (rank == 0)
      MPI_Allgather(&one, 1, MPI_INT, data, 1, MPI_INT, both);
    else
      MPI_Barrier(both);
  }
}

static void* receive(void* argument) {
  MPI_Recv(data, 1, MPI_CHAR, 0, *(int*)argument, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return NULL;
}

static void threads(void) {
  static int tags[3] = {20, 21, 22};
  pthread_t thread[2];
  for (int i = 0; i < 2; ++i)
    pthread_create(&thread[i], NULL, receive, &tags[i]);
  receive(&tags[2]);
}

int main(int argc, char** argv) {
  const char* way = argc > 1 ? argv[1] : "";
  int level;
  if (is(way, "before")) never_end();
  MPI_Init_thread(&argc, &argv, is(way, "threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  messages(way);
  collectives(way);
  if (is(way, "threads")) threads();
  if (is(way, "finalize") && rank == 0) MPI_Recv(data, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return 0;
}
