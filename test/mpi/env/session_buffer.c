/* Buffers of sessions: which communicators use them, and which buffer comes first (MPI 5.0, section 3.6). */
#include "../check.h"

enum { big = 200000 }; /* longer than any eager message: it stays in the buffer until it is received */
static char message[big], received[big];

static MPI_Comm make_comm(MPI_Session session, const char* set, const char* tag) {
  MPI_Group group;
  MPI_Comm comm;
  CHECK_MPI(MPI_Group_from_session_pset(session, set, &group));
  CHECK_MPI(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
  CHECK_MPI(MPI_Group_free(&group));
  return comm;
}

static void receive(MPI_Comm comm, int source) {
  memset(received, 0, sizeof received);
  CHECK_MPI(MPI_Recv(received, big, MPI_CHAR, source, 5, comm, MPI_STATUS_IGNORE));
  CHECK(memcmp(received, message, big) == 0);
}

/* A message to itself finds a buffer, which is then full, or finds none. */
static void expect_room(MPI_Comm comm, int room) {
  int rank;
  CHECK_MPI(MPI_Comm_rank(comm, &rank));
  if (!room) {
    CHECK_ERROR(MPI_Bsend(message, big, MPI_CHAR, rank, 5, comm), MPI_ERR_BUFFER, "");
    return;
  }
  CHECK_MPI(MPI_Bsend(message, big, MPI_CHAR, rank, 5, comm));
  CHECK_ERROR(MPI_Bsend(message, big, MPI_CHAR, rank, 5, comm), MPI_ERR_BUFFER, "no room");
  receive(comm, rank);
}

static void test_descent(MPI_Session session, MPI_Comm comm) {
  MPI_Comm made[6];
  MPI_Group group, part;
  int rank, size, dims = 0, periods = 1;
  CHECK_MPI(MPI_Comm_rank(comm, &rank));
  CHECK_MPI(MPI_Comm_size(comm, &size));
  CHECK_MPI(MPI_Comm_dup(comm, &made[0]));
  CHECK_MPI(MPI_Comm_split(comm, 0, -rank, &made[1]));
  CHECK_MPI(MPI_Dims_create(size, 1, &dims));
  CHECK_MPI(MPI_Cart_create(comm, 1, &dims, &periods, 0, &made[2]));
  CHECK_MPI(MPI_Comm_group(comm, &group));
  CHECK_MPI(MPI_Group_incl(group, 1, &rank, &part));
  CHECK_MPI(MPI_Comm_create_from_group(part, "part", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made[3]));
  CHECK_MPI(MPI_Group_free(&part));
  CHECK_MPI(MPI_Group_union(group, MPI_GROUP_EMPTY, &part));
  CHECK_MPI(MPI_Comm_create(comm, part, &made[4]));
  CHECK_MPI(MPI_Group_free(&part));
  CHECK_MPI(MPI_Group_free(&group));
  made[5] = make_comm(session, "mpi://SELF", "self");
  for (int i = 0; i < 6; ++i) {
    expect_room(made[i], 1);
    CHECK_MPI(MPI_Comm_free(&made[i]));
  }
}

static void test_neighbours(MPI_Session session, MPI_Comm comm) {
  int rank, size, flag = 0;
  MPI_Request request;
  CHECK_MPI(MPI_Comm_rank(comm, &rank));
  CHECK_MPI(MPI_Comm_size(comm, &size));
  CHECK_MPI(MPI_Bsend(message, big, MPI_CHAR, (rank + 1) % size, 5, comm));
  CHECK_MPI(MPI_Session_iflush_buffer(session, &request));
  CHECK_MPI(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
  if (size == 1) CHECK(!flag);
  receive(comm, (rank + size - 1) % size);
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK_MPI(MPI_Session_flush_buffer(session));
}

static void test_session(MPI_Session session, MPI_Session other) {
  const MPI_Comm comm = make_comm(session, "mpi://WORLD", "one");
  const MPI_Comm foreign = make_comm(other, "mpi://WORLD", "other");
  const MPI_Count room = big + MPI_BSEND_OVERHEAD;
  char* memory = malloc((size_t)room);
  char* second = malloc((size_t)room);
  void* address = NULL;
  int size = 0;
  MPI_Count long_size = 0;
  expect_room(comm, 0);
  CHECK_MPI(MPI_Session_attach_buffer(session, memory, (int)room));
  CHECK_ERROR(MPI_Session_attach_buffer(session, second, (int)room), MPI_ERR_BUFFER, "attached already");
  expect_room(comm, 1);
  expect_room(foreign, 0);
  test_descent(session, comm);
  test_neighbours(session, comm);

  /* The communicator's own comes first; the process's last. */
  CHECK_MPI(MPI_Bsend(message, big, MPI_CHAR, 0, 5, comm));
  CHECK_MPI(MPI_Comm_attach_buffer(comm, second, (int)room));
  CHECK_MPI(MPI_Bsend(message, big, MPI_CHAR, 0, 5, comm));
  int rank, ranks;
  CHECK_MPI(MPI_Comm_rank(comm, &rank));
  CHECK_MPI(MPI_Comm_size(comm, &ranks));
  /* Not from any source: the last rank may have come to its next message by then. */
  for (int i = 0; rank == 0 && i < 2 * ranks; ++i)
    receive(comm, i / 2);
  CHECK_MPI(MPI_Comm_detach_buffer(comm, &address, &size));
  CHECK(address == second && size == (int)room);
  CHECK_MPI(MPI_Buffer_attach(second, (int)room));
  expect_room(foreign, 1);
  CHECK_MPI(MPI_Bsend(message, big, MPI_CHAR, rank, 5, comm));
  CHECK_MPI(MPI_Bsend(message, big, MPI_CHAR, rank, 5, foreign));
  receive(comm, rank);
  receive(foreign, rank);
  CHECK_MPI(MPI_Buffer_detach(&address, &size));
  CHECK(address == second);

  CHECK_MPI(MPI_Session_detach_buffer(session, &address, &size));
  CHECK(address == memory && size == (int)room);
  CHECK_ERROR(MPI_Session_detach_buffer(session, &address, &size), MPI_ERR_BUFFER, "no buffer");
  CHECK_MPI(MPI_Session_flush_buffer(session));
  CHECK_ERROR(MPI_Session_attach_buffer_c(session, memory, -1), MPI_ERR_ARG, "negative");
  CHECK_ERROR(MPI_Session_attach_buffer_c(session, NULL, 1), MPI_ERR_BUFFER, "null pointer");
  CHECK_MPI(MPI_Session_attach_buffer_c(session, memory, room));
  CHECK_MPI(MPI_Session_detach_buffer_c(session, &address, &long_size));
  CHECK(address == memory && long_size == room);
  CHECK_MPI(MPI_Session_attach_buffer(session, MPI_BUFFER_AUTOMATIC, 0));
  CHECK_MPI(MPI_Bsend(message, big, MPI_CHAR, (rank + 1) % ranks, 5, comm));
  receive(comm, (rank + ranks - 1) % ranks);
  CHECK_MPI(MPI_Session_detach_buffer(session, &address, &size));
  CHECK(address == MPI_BUFFER_AUTOMATIC);
  free(memory);
  free(second);
  CHECK_MPI(MPI_Comm_free(&(MPI_Comm){comm}));
  CHECK_MPI(MPI_Comm_free(&(MPI_Comm){foreign}));
}

int main(int argc, char** argv) {
  MPI_Session session, other;
  for (int i = 0; i < big; ++i)
    message[i] = (char)(i % 251);
  CHECK_MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
  CHECK_MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &other));
  test_session(session, other);
  CHECK_MPI(MPI_Session_finalize(&other));

  /* Beside the World Model, whose communicators have nothing of it; and the end detaches. */
  static char memory[big + MPI_BSEND_OVERHEAD];
  CHECK_MPI(MPI_Init(&argc, &argv));
  CHECK_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  CHECK_MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  CHECK_MPI(MPI_Session_attach_buffer(session, memory, sizeof memory));
  expect_room(MPI_COMM_WORLD, 0);
  CHECK_ERROR(MPI_Session_attach_buffer(MPI_SESSION_NULL, memory, sizeof memory), MPI_ERR_SESSION, "SESSION");
  CHECK_ERROR(MPI_Session_iflush_buffer(session, NULL), MPI_ERR_ARG, "request");
  MPI_Comm comm = make_comm(session, "mpi://WORLD", "end");
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Request request;
  CHECK_MPI(MPI_Irecv(received, big, MPI_CHAR, (rank + size - 1) % size, 5, comm, &request));
  CHECK_MPI(MPI_Bsend(message, big, MPI_CHAR, (rank + 1) % size, 5, comm));
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK(memcmp(received, message, big) == 0);
  CHECK_MPI(MPI_Comm_free(&comm));
  CHECK_MPI(MPI_Session_finalize(&session));
  MPI_Finalize();
  return 0;
}
