// Programs whose lateness is known, for tools/dev/suites/38-trace.py. The first argument says which.
#define _DEFAULT_SOURCE  // usleep
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { late = 60000, large = 4 << 20 };

static int rank, size;
static char* bytes;

static void late_sender(void) {
  if (rank == 1) usleep(late);
  if (rank == 1) MPI_Send(bytes, large, MPI_BYTE, 0, 7, MPI_COMM_WORLD);
  if (rank == 0) MPI_Recv(bytes, large, MPI_BYTE, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void pingpong(void) {
  for (int i = 0; i < 100; ++i) {
    if (rank == i % 2) MPI_Send(bytes, 8, MPI_BYTE, 1 - rank, 7, MPI_COMM_WORLD);
    if (rank == 1 - i % 2) MPI_Recv(bytes, 8, MPI_BYTE, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static void probed(void) {
  MPI_Status status;
  int count = 0;
  if (rank == 1) usleep(late);
  if (rank == 1) MPI_Send(bytes, 8, MPI_BYTE, 0, 7, MPI_COMM_WORLD);
  if (rank != 0) return;
  MPI_Probe(1, 7, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_BYTE, &count);
  MPI_Recv(bytes, count, MPI_BYTE, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void late_receiver(void) {
  if (rank == 1) usleep(late);
  if (rank == 0) MPI_Ssend(bytes, 8, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(bytes, 8, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void late_member(void) {
  MPI_Comm named;
  MPI_Comm_dup(MPI_COMM_WORLD, &named);
  MPI_Comm_set_name(named, "the \"others\"");
  int sum = 0;
  if (rank == size - 1) usleep(late);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, named);
  MPI_Comm_free(&named);
}

static void late_in_scan(void) {
  int sum = 0;
  if (rank == 1) usleep(late);
  MPI_Scan(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

// Each has data of the rank below it, and of no other.
static MPI_Comm make_chain(void) {
  MPI_Comm chain;
  const int below = rank - 1, above = rank + 1, is_last = rank == size - 1;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, rank != 0, &below, MPI_UNWEIGHTED, !is_last, &above,
                                 MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &chain);
  MPI_Barrier(MPI_COMM_WORLD);
  return chain;
}

static void late_neighbour(void) {
  MPI_Comm chain = make_chain();
  int from_below = 0;
  if (rank == 1) usleep(late);
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, &from_below, 1, MPI_INT, chain);
  MPI_Comm_free(&chain);
}

static void late_neighbour_of_wait(void) {
  MPI_Comm chain = make_chain();
  MPI_Request request;
  int from_below = 0;
  if (rank == 1) usleep(late);
  MPI_Ineighbor_allgather(&rank, 1, MPI_INT, &from_below, 1, MPI_INT, chain, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&chain);
}

static void late_in_nonblocking(void) {
  MPI_Request request;
  int sum = 0, value = 0;
  if (rank == size - 1) usleep(late);
  MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank == 0) usleep(late);
  MPI_Ibcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
  MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
}

// Late in the second of three starts.
static void late_in_persistent(void) {
  MPI_Request request;
  int* const all = calloc((size_t)size, sizeof *all);
  int part = 0;
  MPI_Reduce_scatter_block_init(all, &part, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  for (int i = 0; i < 3; ++i) {
    if (rank == 1 && i == 1) usleep(late);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&request);
  free(all);
}

// Messages that complete in another order than they were sent, and a matched probe before others.
static void crossed(void) {
  MPI_Request request[2];
  MPI_Message message;
  if (rank == 0) {
    MPI_Isend(bytes, large, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(bytes, 8, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &request[1]);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    for (int i = 1; i <= 2; ++i)
      MPI_Send(bytes, 100 * i, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Irecv(bytes, large, MPI_BYTE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &request[0]);
    MPI_Irecv(bytes, large, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &request[1]);
    MPI_Wait(&request[1], MPI_STATUS_IGNORE);
    MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    MPI_Mprobe(0, 4, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Recv(bytes, large, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Mrecv(bytes, large, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  }
}

static void* talk(void* argument) {
  const int tag = *(int*)argument;
  for (int i = 0; i < 50; ++i) {
    char byte = 0;
    if (rank == 0) MPI_Send(&byte, 1, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(&byte, 1, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  return NULL;
}

static void threads(void) {
  pthread_t thread[2];
  int tags[2] = {20, 21};
  for (int i = 0; i < 2; ++i)
    pthread_create(&thread[i], NULL, talk, &tags[i]);
  for (int i = 0; i < 2; ++i)
    pthread_join(thread[i], NULL);
}

static void many(void) {
  for (int i = 0; i < 3000; ++i) {
    if (rank == 0) MPI_Send(bytes, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(bytes, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

int main(int count, char** arguments) {
  const char* const way = count > 1 ? arguments[1] : "";
  int provided = 0;
  MPI_Init_thread(&count, &arguments, strcmp(way, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE,
                  &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bytes = calloc(1, large);
  MPI_Barrier(MPI_COMM_WORLD);
  if (!strcmp(way, "sender"))
    late_sender();
  else if (!strcmp(way, "pingpong"))
    pingpong();
  else if (!strcmp(way, "probed"))
    probed();
  else if (!strcmp(way, "receiver"))
    late_receiver();
  else if (!strcmp(way, "member"))
    late_member();
  else if (!strcmp(way, "scan"))
    late_in_scan();
  else if (!strcmp(way, "neighbour"))
    late_neighbour();
  else if (!strcmp(way, "neighbour of wait"))
    late_neighbour_of_wait();
  else if (!strcmp(way, "nonblocking"))
    late_in_nonblocking();
  else if (!strcmp(way, "persistent"))
    late_in_persistent();
  else if (!strcmp(way, "crossed"))
    crossed();
  else if (!strcmp(way, "threads"))
    threads();
  else if (!strcmp(way, "many"))
    many();
  else if (!strcmp(way, "killed")) {
    if (rank == 1) usleep(late);
    if (rank == 1) _exit(3);  // while rank 0 waits for it
    MPI_Recv(bytes, 8, MPI_BYTE, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else
    MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Finalize();
  free(bytes);
  return 0;
}
