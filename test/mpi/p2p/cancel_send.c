/* MPI_Wait after MPI_Cancel of a send is local (MPI 5.0, section 3.8.4): it returns while the target is not
   in MPI, and the send is either cancelled or received, never both and never neither. */
#define _DEFAULT_SOURCE  // nanosleep, mkdtemp
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../check.h"

enum { most = 3000000, short_tag = 1, flag_tag = 2, token_tag = 3 };

static int rank, size, right, left;
static int out[most], in[most];
static char folder[200];
static MPI_Datatype gaps; /* of 2 ints in 3 */

/* Ranks speak by files where they must not speak by MPI. */
static void announce(const char* what, int whose) {
  char name[300];
  snprintf(name, sizeof name, "%s/%s.%d", folder, what, whose);
  const int file = open(name, O_CREAT | O_WRONLY, 0600);
  CHECK(file >= 0);
  close(file);
}
static void await_outside_of_mpi(const char* what, int whose) {
  char name[300];
  const struct timespec moment = {0, 1000000};
  snprintf(name, sizeof name, "%s/%s.%d", folder, what, whose);
  for (int i = 0; access(name, F_OK) != 0; ++i) {
    CHECK(i < 40000);
    nanosleep(&moment, NULL);
  }
  unlink(name);
}

static int was_cancelled(MPI_Status* status) {
  int flag = -1;
  MPI_Test_cancelled(status, &flag);
  return flag;
}
static int cancel(MPI_Request* request) {
  MPI_Status status;
  CHECK_MPI(MPI_Cancel(request));
  CHECK_MPI(MPI_Wait(request, &status));
  CHECK(*request == MPI_REQUEST_NULL);
  return was_cancelled(&status);
}

/* Nobody receives, and nobody is in MPI. The next message is then the first that arrives. */
static void test_nobody_receives(MPI_Datatype type, int count, int synchronous) {
  MPI_Request request;
  MPI_Status status;
  int next = -1, value = 100 + rank;
  MPI_Barrier(MPI_COMM_WORLD);
  if (synchronous)
    MPI_Issend(out, count, type, right, short_tag, MPI_COMM_WORLD, &request);
  else
    MPI_Isend(out, count, type, right, short_tag, MPI_COMM_WORLD, &request);
  const int cancelled = cancel(&request);
  announce("cancelled", rank);
  await_outside_of_mpi("cancelled", left);
  if (synchronous) CHECK(cancelled);
  MPI_Sendrecv(&cancelled, 1, MPI_INT, right, flag_tag, &next, 1, MPI_INT, left, flag_tag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  if (!next) MPI_Recv(in, count, type, left, short_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(&value, 1, MPI_INT, right, short_tag, &next, 1, MPI_INT, left, short_tag, MPI_COMM_WORLD,
               &status);
  CHECK_EQUAL(next, 100 + left);
}

/* A probe sees the message while it is offered, and does not when it has been taken back; a wildcard passes
 * over it. */
static void test_probe(int count) {
  MPI_Request request;
  MPI_Status status;
  int flag = 0, value = 7;
  if (size < 2) return;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Issend(out, count, MPI_INT, 1, short_tag, MPI_COMM_WORLD, &request);
    MPI_Recv(NULL, 0, MPI_INT, 1, token_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(cancel(&request));
    MPI_Send(NULL, 0, MPI_INT, 1, token_tag, MPI_COMM_WORLD);
    MPI_Send(&value, 1, MPI_INT, 1, short_tag, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Probe(0, short_tag, MPI_COMM_WORLD, &status);
    MPI_Send(NULL, 0, MPI_INT, 0, token_tag, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, 0, token_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    do {
      MPI_Message message;
      MPI_Improbe(MPI_ANY_SOURCE, short_tag, MPI_COMM_WORLD, &flag, &message, &status);
      if (!flag) continue;
      MPI_Get_count(&status, MPI_INT, &value);
      CHECK_EQUAL(value, 1);
      MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    } while (!flag);
    CHECK_EQUAL(value, 7);
  }
}

/* What a matched probe has taken is the receiver's. */
static void test_matched_probe(int count) {
  MPI_Request request;
  MPI_Message message;
  MPI_Status status;
  if (size < 2) return;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Issend(out, count, MPI_INT, 1, short_tag, MPI_COMM_WORLD, &request);
    MPI_Recv(NULL, 0, MPI_INT, 1, token_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(!cancel(&request));
  } else if (rank == 1) {
    MPI_Mprobe(0, short_tag, MPI_COMM_WORLD, &message, &status);
    MPI_Send(NULL, 0, MPI_INT, 0, token_tag, MPI_COMM_WORLD);
    MPI_Mrecv(in, count, MPI_INT, &message, &status);
    CHECK_EQUAL(in[count - 1], count - 1);
  }
}

/* Sender and receiver at the same time. */
static void test_race(int count, int rounds) {
  if (size < 2) return;
  for (int round = 0; round < rounds; ++round) {
    MPI_Request request;
    MPI_Status status;
    int cancelled = -1;
    /* Else a receive that is still to be cancelled has the message of the next round. */
    if (rank == 0) MPI_Recv(NULL, 0, MPI_INT, 1, token_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(NULL, 0, MPI_INT, 0, token_tag, MPI_COMM_WORLD);
    if (rank == 0) {
      out[0] = round;
      MPI_Issend(out, count, MPI_INT, 1, short_tag, MPI_COMM_WORLD, &request);
      for (int i = 0; i < round % 7; ++i) {
        int flag;
        MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
      }
      cancelled = cancel(&request);
      out[0] = -1; /* the buffer is the program's again */
      MPI_Send(&cancelled, 1, MPI_INT, 1, flag_tag, MPI_COMM_WORLD);
    } else if (rank == 1) {
      if (round % 2)
        MPI_Irecv(in, count, MPI_INT, 0, short_tag, MPI_COMM_WORLD, &request);
      else
        MPI_Irecv(in, count, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
      if (round % 2) {
        MPI_Recv(&cancelled, 1, MPI_INT, 0, flag_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else {
        /* The wildcard has had one or the other. */
        MPI_Wait(&request, &status);
        cancelled = status.MPI_TAG == flag_tag;
        if (cancelled)
          CHECK_EQUAL(in[0], 1);
        else
          CHECK_EQUAL(in[0], round);
        if (cancelled) continue;
        MPI_Recv(&cancelled, 1, MPI_INT, 0, flag_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(cancelled, 0);
        continue;
      }
      if (cancelled) {
        CHECK_MPI(MPI_Cancel(&request));
        MPI_Wait(&request, &status);
        CHECK(was_cancelled(&status));
      } else {
        MPI_Wait(&request, &status);
        CHECK_EQUAL(in[0], round);
      }
    }
  }
  out[0] = 0;
}

/* A long message that has been matched and goes in fragments, while its receiver is not in MPI: it cannot be
   cancelled, but its buffer is free when the wait returns, and what was there arrives. */
static void test_matched_and_left(void) {
  MPI_Request request;
  const int blocks = most / 3;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank % 2 == 0 && rank + 1 < size) {
    MPI_Isend(out, blocks, gaps, rank + 1, short_tag, MPI_COMM_WORLD, &request);
    MPI_Send(NULL, 0, MPI_INT, rank + 1, token_tag, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, rank + 1, token_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(!cancel(&request));
    for (int i = 0; i < most; ++i)
      out[i] = -1;
    announce("left", rank);
    for (int i = 0; i < most; ++i)
      out[i] = i;
  } else if (rank % 2 == 1) {
    memset(in, -1, sizeof in);
    MPI_Irecv(in, blocks, gaps, rank - 1, short_tag, MPI_COMM_WORLD, &request);
    MPI_Recv(NULL, 0, MPI_INT, rank - 1, token_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(NULL, 0, MPI_INT, rank - 1, token_tag, MPI_COMM_WORLD);
    await_outside_of_mpi("left", rank - 1);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < most; ++i)
      CHECK_EQUAL(in[i], i % 3 == 2 ? -1 : i);
  }
}

/* Persistent, freed, and many at once. */
static void test_many(void) {
  enum { many = 700 };
  static MPI_Request requests[many];
  MPI_Request persistent;
  MPI_Status status;
  int count = 0;
  for (int i = 0; i < many; ++i)
    MPI_Issend(out, i % 2 ? 5 : 50000, MPI_INT, right, short_tag, MPI_COMM_WORLD, &requests[i]);
  for (int i = 0; i < many; ++i)
    if (i % 5 != 0) {
      CHECK_MPI(MPI_Cancel(&requests[i]));
      MPI_Wait(&requests[i], &status);
      CHECK(was_cancelled(&status));
    }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < many; i += 5) {
    MPI_Recv(in, 50000, MPI_INT, left, short_tag, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK_EQUAL(count, i % 2 ? 5 : 50000);
  }
  MPI_Waitall(many, requests, MPI_STATUSES_IGNORE);
  MPI_Ssend_init(out, 10, MPI_INT, right, short_tag, MPI_COMM_WORLD, &persistent);
  for (int i = 0; i < 3; ++i) {
    MPI_Start(&persistent);
    CHECK_MPI(MPI_Cancel(&persistent));
    MPI_Wait(&persistent, &status);
    CHECK(was_cancelled(&status));
  }
  MPI_Request_free(&persistent);
  MPI_Issend(out, 10, MPI_INT, right, short_tag, MPI_COMM_WORLD, &requests[0]);
  CHECK_MPI(MPI_Cancel(&requests[0]));
  CHECK_MPI(MPI_Request_free(&requests[0]));
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  right = (rank + 1) % size, left = (rank + size - 1) % size;
  for (int i = 0; i < most; ++i)
    out[i] = i;
  MPI_Type_create_resized(MPI_2INT, 0, 3 * (MPI_Aint)sizeof(int), &gaps);
  MPI_Type_commit(&gaps);
  if (rank == 0) {
    snprintf(folder, sizeof folder, "%s/cancel.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    CHECK(mkdtemp(folder));
  }
  MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
  for (int synchronous = 0; synchronous < 2; ++synchronous) {
    test_nobody_receives(MPI_INT, 1, synchronous);
    test_nobody_receives(MPI_INT, 2000, synchronous);
    test_nobody_receives(MPI_INT, 100000, synchronous);
    test_nobody_receives(gaps, 100000, synchronous);
    test_nobody_receives(MPI_INT, 0, synchronous);
  }
  test_probe(1);
  test_probe(3000);
  test_probe(100000);
  test_matched_probe(1);
  test_matched_probe(100000);
  test_race(2, 400);
  test_race(3000, 200);
  test_race(100000, 200);
  test_matched_and_left();
  test_many();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK_EQUAL(rmdir(folder), 0);
  MPI_Type_free(&gaps);
  MPI_Finalize();
  return 0;
}
