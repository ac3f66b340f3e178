/* What a program sees of the death of a rank, and how it goes on. `program_survival WAY [VICTIM]`; for
   `mpiexec --on-failure continue`, or any launcher that does not end the job. The suite `survival` runs it.
 */
#define _DEFAULT_SOURCE  // kill, usleep, clock_gettime
#include <mpi-ext.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "survival_collectives.h"

enum { small = 64, large = 1 << 20 };

static int rank, size, victim;
static char buffer[64 * 1024 * 64], other[64 * 1024 * 64];

static int class_of(int code) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  return error_class;
}

static int is_victim(void) {
  return rank == victim;
}
static void die(void) {
  kill(getpid(), SIGKILL);
}
static void die_of(int signal) {
  (void)signal;
  kill(getpid(), SIGKILL);  // NOLINT(bugprone-signal-handler): POSIX has it as safe here
}
/* Dies wherever it is after so many microseconds. */
static void die_after(int microseconds) {
  const struct itimerval timer = {.it_value = {.tv_sec = 0, .tv_usec = microseconds}};
  signal(SIGALRM, die_of);
  setitimer(ITIMER_REAL, &timer, NULL);
}
/* Milliseconds of the clock that all processes of this machine have. */
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}
static int next_living(int from) {
  const int next = (from + 1) % size;
  return next == victim ? (next + 1) % size : next;
}
static int previous_living(int from) {
  const int previous = (from + size - 1) % size;
  return previous == victim ? (previous + size - 1) % size : previous;
}

/* After this nobody is in a call that needs the victim, which may die. */
static void part(void) {
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  if (!is_victim()) CHECK_MPI(MPI_Send(NULL, 0, MPI_BYTE, victim, 13, MPI_COMM_WORLD));
  for (int from = 0; is_victim() && from < size; ++from)
    if (from != rank) CHECK_MPI(MPI_Recv(NULL, 0, MPI_BYTE, from, 13, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/* All who live, without the communicator that is broken. */
static MPI_Comm living(void) {
  MPI_Comm left;
  CHECK_MPI(MPIX_Comm_shrink(MPI_COMM_WORLD, &left));
  return left;
}

static void check_living(MPI_Comm comm) {
  int ranks = 0, sum = 0;
  MPI_Comm_size(comm, &ranks);
  CHECK_EQUAL(ranks, size - 1);
  CHECK_MPI(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
  CHECK_EQUAL(sum, size * (size - 1) / 2 - victim);
  CHECK_MPI(MPI_Barrier(comm));
}

/* Each call that needs the victim ends in the error; those that do not, go on. */
static void messages(int bytes) {
  MPI_Request request;
  MPI_Status status;
  if (is_victim()) die();
  CHECK_EQUAL(class_of(MPI_Recv(buffer, bytes, MPI_BYTE, victim, 1, MPI_COMM_WORLD, &status)),
              MPI_ERR_PROC_ABORTED);
  CHECK_EQUAL(class_of(MPI_Ssend(buffer, bytes, MPI_BYTE, victim, 1, MPI_COMM_WORLD)), MPI_ERR_PROC_ABORTED);
  CHECK_EQUAL(class_of(MPI_Send(buffer, bytes, MPI_BYTE, victim, 1, MPI_COMM_WORLD)), MPI_ERR_PROC_ABORTED);
  MPI_Irecv(buffer, bytes, MPI_BYTE, victim, 1, MPI_COMM_WORLD, &request);
  CHECK_EQUAL(class_of(MPI_Wait(&request, &status)), MPI_ERR_PROC_ABORTED);
  MPI_Isend(buffer, bytes, MPI_BYTE, victim, 1, MPI_COMM_WORLD, &request);
  CHECK_EQUAL(class_of(MPI_Wait(&request, &status)), MPI_ERR_PROC_ABORTED);
  CHECK_EQUAL(class_of(MPI_Probe(victim, 1, MPI_COMM_WORLD, &status)), MPI_ERR_PROC_ABORTED);
  CHECK_EQUAL(class_of(MPI_Sendrecv(buffer, bytes, MPI_BYTE, victim, 1, other, bytes, MPI_BYTE, victim, 1,
                                    MPI_COMM_WORLD, &status)),
              MPI_ERR_PROC_ABORTED);
  if (size > 2)
    CHECK_MPI(MPI_Sendrecv(buffer, bytes, MPI_BYTE, next_living(rank), 2, other, bytes, MPI_BYTE,
                           previous_living(rank), 2, MPI_COMM_WORLD, &status));
}

/* The death is in the middle of all kinds of pending calls. */
static void pending(void) {
  MPI_Request requests[4];
  MPI_Status statuses[4];
  MPI_Irecv(other, large, MPI_BYTE, victim, 3, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(other + large, small, MPI_BYTE, victim, 4, MPI_COMM_WORLD, &requests[1]);
  if (is_victim()) {
    usleep(50000);
    die();
  }
  MPI_Isend(buffer, large, MPI_BYTE, victim, 5, MPI_COMM_WORLD, &requests[2]);
  MPI_Issend(buffer, small, MPI_BYTE, victim, 6, MPI_COMM_WORLD, &requests[3]);
  CHECK_EQUAL(class_of(MPI_Waitall(4, requests, statuses)), MPI_ERR_IN_STATUS);
  for (int i = 0; i < 4; ++i)
    CHECK_EQUAL(class_of(statuses[i].MPI_ERROR), MPI_ERR_PROC_ABORTED);
}

/* What the victim has sent before its end is received. */
static void last_words(void) {
  int word = 0;
  MPI_Status status;
  if (is_victim()) {
    for (int to = 0; to < size; ++to)
      if (to != rank) MPI_Send(&rank, 1, MPI_INT, to, 7, MPI_COMM_WORLD);
    die();
  }
  CHECK_MPI(MPI_Recv(&word, 1, MPI_INT, victim, 7, MPI_COMM_WORLD, &status));
  CHECK_EQUAL(word, victim);
  CHECK_EQUAL(class_of(MPI_Recv(&word, 1, MPI_INT, victim, 7, MPI_COMM_WORLD, &status)),
              MPI_ERR_PROC_ABORTED);
}

static int collective(const char* name, int bytes) {
  return run_collective(name, bytes, (struct job){victim, size, buffer, other});
}

static int nonblocking_collective(const char* name, int bytes) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = begin_collective(name, bytes, (struct job){victim, size, buffer, other}, &request);
  return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

/* The victim dies as the 20th of one kind begins, or after so many microseconds, wherever it is then: the
   others come to an error, none hangs. Its loss once seen, every further one fails. */
static void collectives(int (*run)(const char*, int), const char* name, int bytes, int microseconds) {
  int code = MPI_SUCCESS;
  CHECK_MPI(run(name, bytes));
  part();
  if (is_victim() && microseconds > 0) die_after(microseconds);
  for (int i = 0; code == MPI_SUCCESS; ++i) {
    if (is_victim() && microseconds == 0 && i == 20) die();
    code = run(name, bytes);
  }
  CHECK_EQUAL(class_of(code), MPI_ERR_PROC_ABORTED);
  CHECK_EQUAL(class_of(run(name, bytes)), MPI_ERR_PROC_ABORTED);
  CHECK_EQUAL(class_of(MPI_Barrier(MPI_COMM_WORLD)), MPI_ERR_PROC_ABORTED);
  MPI_Comm twin;
  CHECK_EQUAL(class_of(MPI_Comm_dup(MPI_COMM_WORLD, &twin)), MPI_ERR_PROC_ABORTED);
}

/* The victim dies amid long messages between it and all others, out of memory that both sides may have
   mapped: the others come to an error, what had arrived was right, and their memory goes on to be good for
   messages. */
static void mapped(int microseconds) {
  enum { bytes = 8 << 20 };
  char *out = NULL, *in = NULL;
  int code = MPI_SUCCESS;
  CHECK_MPI(MPI_Alloc_mem(bytes, MPI_INFO_NULL, &out));
  CHECK_MPI(MPI_Alloc_mem(bytes, MPI_INFO_NULL, &in));
  memset(out, rank + 1, bytes);
  part();
  if (is_victim() && microseconds == 0) die();
  if (is_victim()) die_after(microseconds);
  while (code == MPI_SUCCESS)
    for (int other_side = 0; other_side < size && code == MPI_SUCCESS; ++other_side) {
      if (other_side == rank || !(is_victim() || other_side == victim)) continue;
      code = MPI_Sendrecv(out, bytes, MPI_BYTE, other_side, 18, in, bytes, MPI_BYTE, other_side, 18,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (code == MPI_SUCCESS) CHECK(in[0] == other_side + 1 && !memcmp(in, in + 1, bytes - 1));
    }
  CHECK_EQUAL(class_of(code), MPI_ERR_PROC_ABORTED);
  CHECK_MPI(MPI_Sendrecv(out, bytes, MPI_BYTE, next_living(rank), 19, in, bytes, MPI_BYTE,
                         previous_living(rank), 19, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  CHECK(in[0] == previous_living(rank) + 1 && !memcmp(in, in + 1, bytes - 1));
  CHECK_MPI(MPI_Free_mem(out));
  CHECK_MPI(MPI_Free_mem(in));
}

/* A persistent collective that is started again and again. */
static void persistent_collective(int bytes) {
  const int n = bytes / (int)sizeof(double);
  int code = MPI_SUCCESS;
  MPI_Request request;
  CHECK_MPI(
      MPI_Allreduce_init(buffer, other, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
  for (int i = 0; code == MPI_SUCCESS; ++i) {
    if (is_victim() && i == 20) die();
    code = MPI_Start(&request);
    if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  CHECK_EQUAL(class_of(code), MPI_ERR_PROC_ABORTED);
  CHECK_MPI(MPI_Request_free(&request));
}

/* Who is stopped is not dead: the others wait for it as long as it takes. */
static void stopped(const char* call) {
  double sum = 0, one = 1;
  if (is_victim()) {
    const pid_t here = getpid();
    if (fork() == 0) {
      sleep(1);
      kill(here, SIGCONT);
      _exit(0);
    }
    raise(SIGSTOP);
  }
  if (!strcmp(call, "receive") && !is_victim()) {
    CHECK_MPI(MPI_Recv(&sum, 1, MPI_DOUBLE, victim, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  } else if (!strcmp(call, "receive")) {
    for (int to = 0; to < size; ++to)
      if (to != rank) CHECK_MPI(MPI_Send(&one, 1, MPI_DOUBLE, to, 11, MPI_COMM_WORLD));
  } else if (!strcmp(call, "agree")) {
    int flag = 1;
    CHECK_MPI(MPIX_Comm_agree(MPI_COMM_WORLD, &flag));
  }
  CHECK_MPI(MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
  CHECK_EQUAL(sum, size);
  MPI_Group failed;
  CHECK_MPI(MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed));
  CHECK_EQUAL(failed, MPI_GROUP_EMPTY);
}

/* How long after the death of the victim the call that needs it has ended, on who waits longest. */
static void death_to_error(const char* call) {
  double died = 0, took = 0, longest = 0;
  int code = MPI_SUCCESS, done = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  if (is_victim()) {
    usleep(200000); /* the others wait by then */
    died = now();
    for (int to = 0; to < size; ++to)
      if (to != rank) MPI_Send(&died, 1, MPI_DOUBLE, to, 12, MPI_COMM_WORLD);
    die();
  }
  MPI_Irecv(&died, 1, MPI_DOUBLE, victim, 12, MPI_COMM_WORLD, &request);
  if (!strcmp(call, "barrier")) code = MPI_Barrier(MPI_COMM_WORLD);
  if (!strcmp(call, "receive"))
    code = MPI_Recv(buffer, small, MPI_BYTE, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (!strcmp(call, "test")) {
    MPI_Request never;
    MPI_Irecv(buffer, small, MPI_BYTE, victim, 1, MPI_COMM_WORLD, &never);
    while (!done)
      code = MPI_Test(&never, &done, MPI_STATUS_IGNORE);
  }
  if (!strcmp(call, "send")) code = MPI_Ssend(buffer, large, MPI_BYTE, victim, 1, MPI_COMM_WORLD);
  if (!strcmp(call, "probe")) code = MPI_Probe(victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  took = now();
  CHECK_EQUAL(class_of(code), MPI_ERR_PROC_ABORTED);
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  took -= died;
  MPI_Comm left = living();
  CHECK_MPI(MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, left));
  MPI_Comm_rank(left, &done);
  if (done == 0) printf("death to error: %.0f ms\n", longest);
  CHECK_MPI(MPI_Comm_free(&left));
}

/* How long an agreement and a shrinking take, on who waits longest: the least and the most of several. */
static void time_agreement(void) {
  enum { times = 10 };
  double agreed[times], shrunk[times], most[times];
  int position = 0;
  if (is_victim()) die();
  CHECK_EQUAL(class_of(MPI_Recv(buffer, small, MPI_BYTE, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)),
              MPIX_ERR_PROC_FAILED);
  MPI_Comm left = living();
  MPI_Comm_rank(left, &position);
  for (int i = 0; i < times; ++i) {
    int flag = 1;
    MPI_Comm comm;
    CHECK_MPI(MPI_Barrier(left));
    const double began = now();
    CHECK_MPI(MPIX_Comm_agree(left, &flag));
    agreed[i] = now() - began;
    CHECK_MPI(MPI_Barrier(left));
    const double again = now();
    CHECK_MPI(MPIX_Comm_shrink(MPI_COMM_WORLD, &comm));
    shrunk[i] = now() - again;
    CHECK_MPI(MPI_Comm_free(&comm));
  }
  for (int which = 0; which < 2; ++which) {
    CHECK_MPI(MPI_Reduce(which ? shrunk : agreed, most, times, MPI_DOUBLE, MPI_MAX, 0, left));
    double least = most[0], longest = most[0];
    for (int i = 1; i < times; ++i) {
      least = most[i] < least ? most[i] : least;
      longest = most[i] > longest ? most[i] : longest;
    }
    if (position == 0) printf("%s: %.1f to %.1f ms\n", which ? "shrink" : "agree", least, longest);
  }
  CHECK_MPI(MPI_Comm_free(&left));
}

/* A receive from any source is not over: it is told once, and goes on. */
static void any_source(void) {
  static int freed;
  MPI_Request request, cancelled, free;
  MPI_Status status;
  int word = -1, never = -1, is_cancelled = 0;
  MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &request);
  MPI_Irecv(&never, 1, MPI_INT, MPI_ANY_SOURCE, 14, MPI_COMM_WORLD, &cancelled);
  MPI_Irecv(&freed, 1, MPI_INT, MPI_ANY_SOURCE, 15, MPI_COMM_WORLD, &free);
  part();
  if (is_victim()) die();
  CHECK_EQUAL(class_of(MPI_Wait(&request, &status)), MPIX_ERR_PROC_FAILED_PENDING);
  CHECK(request != MPI_REQUEST_NULL);
  CHECK_EQUAL(class_of(MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &status)),
              MPI_ERR_PROC_ABORTED);
  int acked = 0;
  CHECK_MPI(MPIX_Comm_ack_failed(MPI_COMM_WORLD, size, &acked));
  CHECK_EQUAL(acked, 1);
  /* Not before the next one has seen what it is to see. */
  CHECK_MPI(MPI_Sendrecv(NULL, 0, MPI_INT, previous_living(rank), 10, NULL, 0, MPI_INT, next_living(rank), 10,
                         MPI_COMM_WORLD, &status));
  if (rank % 2 == 0) {
    CHECK_MPI(MPI_Send(&rank, 1, MPI_INT, next_living(rank), 8, MPI_COMM_WORLD));
    CHECK_MPI(MPI_Wait(&request, &status));
  } else {
    MPI_Request sent;
    CHECK_MPI(MPI_Issend(&rank, 1, MPI_INT, next_living(rank), 8, MPI_COMM_WORLD, &sent));
    CHECK_MPI(MPI_Wait(&request, &status));
    CHECK_MPI(MPI_Wait(&sent, MPI_STATUS_IGNORE));
  }
  CHECK_EQUAL(word, previous_living(rank));
  CHECK_EQUAL(status.MPI_SOURCE, previous_living(rank));
  /* Cancelled or freed before the program has heard of the loss. */
  CHECK_MPI(MPI_Cancel(&cancelled));
  CHECK_MPI(MPI_Wait(&cancelled, &status));
  MPI_Test_cancelled(&status, &is_cancelled);
  CHECK(is_cancelled);
  CHECK_MPI(MPI_Request_free(&free));
  CHECK_MPI(MPI_Sendrecv(NULL, 0, MPI_INT, previous_living(rank), 16, NULL, 0, MPI_INT, next_living(rank), 16,
                         MPI_COMM_WORLD, &status));
  CHECK_MPI(MPI_Ssend(&rank, 1, MPI_INT, next_living(rank), 15, MPI_COMM_WORLD));
  CHECK_MPI(MPI_Sendrecv(NULL, 0, MPI_INT, next_living(rank), 17, NULL, 0, MPI_INT, previous_living(rank), 17,
                         MPI_COMM_WORLD, &status));
  CHECK_EQUAL(freed, previous_living(rank));
}

/* One revokes while all others wait for each other. */
static void revocation(void) {
  MPI_Comm comm;
  int flag = 0, code;
  CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  if (is_victim()) {
    usleep(20000);
    CHECK_MPI(MPIX_Comm_revoke(comm));
    code = MPI_Barrier(comm);
  } else if (rank % 2 == 0) {
    code = MPI_Barrier(comm);
  } else {
    code = MPI_Recv(buffer, small, MPI_BYTE, victim, 1, comm, MPI_STATUS_IGNORE);
  }
  CHECK_EQUAL(class_of(code), MPIX_ERR_REVOKED);
  CHECK_EQUAL(class_of(MPI_Send(buffer, small, MPI_BYTE, 0, 1, comm)), MPIX_ERR_REVOKED);
  CHECK_EQUAL(class_of(MPI_Recv(buffer, small, MPI_BYTE, MPI_ANY_SOURCE, 1, comm, MPI_STATUS_IGNORE)),
              MPIX_ERR_REVOKED);
  CHECK_MPI(MPIX_Comm_is_revoked(comm, &flag));
  CHECK(flag);
  int agreed = rank == 0 ? 6 : 12;
  CHECK_MPI(MPIX_Comm_agree(comm, &agreed));
  CHECK_EQUAL(agreed, size > 1 ? 4 : 6);
  MPI_Comm same;
  CHECK_MPI(MPIX_Comm_shrink(comm, &same));
  int ranks = 0;
  MPI_Comm_size(same, &ranks);
  CHECK_EQUAL(ranks, size);
  CHECK_MPI(MPI_Barrier(same));
  CHECK_MPI(MPI_Comm_free(&same));
  CHECK_MPI(MPI_Comm_free(&comm));
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
}

/* One revokes while a nonblocking collective moves data straight between the others' buffers, and one of them
   is outside of MPI: who has the error has its buffers back for good, and who has none has the right sums. */
static void revoked_under_way(void) {
  const int n = large / (int)sizeof(double), late = (victim + 1) % size;
  double* const ones = (double*)buffer;
  double* const sums = (double*)other;
  MPI_Comm comm;
  MPI_Request request;
  CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  for (int i = 0; i < n; ++i)
    ones[i] = 1;
  CHECK_MPI(MPI_Iallreduce(ones, sums, n, MPI_DOUBLE, MPI_SUM, comm, &request));
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  CHECK_MPI(MPI_Iallreduce(ones, sums, n, MPI_DOUBLE, MPI_SUM, comm, &request));
  if (is_victim()) CHECK_MPI(MPIX_Comm_revoke(comm));
  if (rank == late) usleep(300000);
  const int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) {
    CHECK_EQUAL(class_of(code), MPIX_ERR_REVOKED);
    for (int i = 0; i < n; ++i)
      ones[i] = sums[i] = size;
  }
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  for (int i = 0; i < n; ++i)
    CHECK_EQUAL(sums[i], size);
  CHECK_MPI(MPI_Comm_free(&comm));
}

/* One revokes instead of taking part in a collective, in which others wait for it or for whoever waits for
 * it. */
static void revoked_apart(void) {
  MPI_Comm comm;
  double one = 1, sum = 0;
  int code = MPI_SUCCESS;
  CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  CHECK_MPI(MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, comm));
  CHECK_EQUAL(sum, size);
  if (is_victim()) {
    usleep(50000);
    CHECK_MPI(MPIX_Comm_revoke(comm));
  } else {
    code = MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
    CHECK_EQUAL(class_of(code), MPIX_ERR_REVOKED);
  }
  CHECK_MPI(MPI_Comm_free(&comm));
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
}

/* Rounds of agreements, in one of which the victim dies: the others hear the same, in all of them. */
static void agree(int seed) {
  int failed_from = -1;
  const int rounds = 40;
  int flags[40], errors[40];
  for (int i = 0; i < rounds; ++i) {
    if (is_victim() && i == 10) {
      usleep((unsigned)(seed * 137 % 900));
      die();
    }
    int flag = -1 & ~(1 << (rank % 30));
    if (is_victim() && i == 9) {
      /* Dies within the agreement, perhaps. */
      MPI_Request request;
      MPIX_Comm_iagree(MPI_COMM_WORLD, &flag, &request);
      int done = 0;
      for (int looks = 0; looks < seed % 7 && !done; ++looks)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      die();
    }
    const int code = MPIX_Comm_agree(MPI_COMM_WORLD, &flag);
    CHECK(code == MPI_SUCCESS || class_of(code) == MPIX_ERR_PROC_FAILED);
    flags[i] = flag;
    errors[i] = class_of(code);
    if (code != MPI_SUCCESS && failed_from < 0) {
      failed_from = i;
      CHECK_MPI(MPIX_Comm_failure_ack(MPI_COMM_WORLD));
    }
  }
  MPI_Comm left = living();
  check_living(left);
  for (int i = 0; i < rounds; ++i) {
    int both[4] = {flags[i], -flags[i], errors[i], -errors[i]}, least[4];
    CHECK_MPI(MPI_Allreduce(both, least, 4, MPI_INT, MPI_MIN, left));
    CHECK_EQUAL(least[0], -least[1]);
    CHECK_EQUAL(least[2], -least[3]);
  }
  CHECK_MPI(MPI_Comm_free(&left));
}

/* What is known of the dead, and a group without them. */
static void groups(void) {
  MPI_Group failed, acked, world;
  int count = 0, zero = 0, translated = -1, flag = 1;
  if (is_victim()) die();
  CHECK_EQUAL(class_of(MPI_Recv(buffer, small, MPI_BYTE, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)),
              MPIX_ERR_PROC_FAILED);
  CHECK_MPI(MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed));
  MPI_Group_size(failed, &count);
  CHECK_EQUAL(count, 1);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_translate_ranks(failed, 1, &zero, world, &translated);
  CHECK_EQUAL(translated, victim);
  CHECK_MPI(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &acked));
  MPI_Group_size(acked, &count);
  CHECK_EQUAL(count, 0);
  CHECK_EQUAL(class_of(MPIX_Comm_agree(MPI_COMM_WORLD, &flag)), MPIX_ERR_PROC_FAILED);
  CHECK_EQUAL(flag, 1);
  CHECK_MPI(MPIX_Comm_failure_ack(MPI_COMM_WORLD));
  CHECK_MPI(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &acked));
  MPI_Group_size(acked, &count);
  CHECK_EQUAL(count, 1);
  CHECK_MPI(MPIX_Comm_agree(MPI_COMM_WORLD, &flag));
  CHECK_EQUAL(class_of(MPIX_Comm_ack_failed(MPI_COMM_WORLD, -1, &count)), MPI_ERR_ARG);
  /* Those who live make a communicator by themselves. */
  MPI_Group left;
  MPI_Comm comm;
  MPI_Group_difference(world, failed, &left);
  CHECK_MPI(MPI_Comm_create_group(MPI_COMM_WORLD, left, 5, &comm));
  check_living(comm);
}

int main(int argc, char** argv) {
  const char* way = argc > 1 ? argv[1] : "";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  victim = argc > 2 ? atoi(argv[2]) % size : size - 1;
  part();
  if (!strcmp(way, "messages")) messages(small);
  if (!strcmp(way, "long-messages")) messages(large);
  if (!strcmp(way, "pending")) pending();
  if (!strcmp(way, "last-words")) last_words();
  if (!strcmp(way, "any-source")) any_source();
  if (!strcmp(way, "groups")) groups();
  if (!strcmp(way, "mapped")) mapped(argc > 3 ? atoi(argv[3]) : 0);
  if (!strcmp(way, "agree")) agree(argc > 3 ? atoi(argv[3]) : 0);
  const char* name = argc > 3 ? argv[3] : "barrier";
  const int bytes = argc > 4 ? atoi(argv[4]) : small;
  const int moment = argc > 5 ? atoi(argv[5]) : 0;
  if (!strcmp(way, "collective")) collectives(collective, name, bytes, moment);
  if (!strcmp(way, "nonblocking")) collectives(nonblocking_collective, name, bytes, moment);
  if (!strcmp(way, "persistent")) persistent_collective(argc > 3 ? atoi(argv[3]) : small);
  if (!strcmp(way, "stopped")) stopped(argc > 3 ? argv[3] : "receive");
  if (!strcmp(way, "death-to-error")) death_to_error(argc > 3 ? argv[3] : "receive");
  if (!strcmp(way, "time-agreement")) time_agreement();
  if (!strcmp(way, "finalize") && is_victim()) die();
  if (!strcmp(way, "revoke")) {
    revocation();
  } else if (!strcmp(way, "revoke-apart")) {
    revoked_apart();
  } else if (!strcmp(way, "revoke-under-way")) {
    revoked_under_way();
  } else if (strcmp(way, "finalize") && strcmp(way, "agree") && strcmp(way, "stopped")) {
    MPI_Comm left = living();
    check_living(left);
    MPI_Comm_free(&left);
  }
  MPI_Finalize();
  if (rank == (victim + 1) % size) printf("survived\n");
  return 0;
}
