/* Children of a fork: what only runs another program or ends leaves its parent's MPI alone, exit handlers and
   destructors included; what calls MPI ends in one clear error, and the parent goes on. */
#define _DEFAULT_SOURCE  // unsetenv, popen
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

static int rank, size, in_child, handlers;

/* As libraries clean up: it asks first. */
static void exit_handler(void) {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (in_child && initialized && !finalized) MPI_Finalize();
  ++handlers;
}

/* One of many messages that wait in this rank's rings, which a child would take. */
static void exchange(void) {
  int sum = 0, value[2] = {rank, -1};
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Request request;
  MPI_Irecv(&value[1], 1, MPI_INT, left, 3, MPI_COMM_WORLD, &request);
  MPI_Send(&value[0], 1, MPI_INT, right, 3, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK_EQUAL(value[1], left);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK_EQUAL(sum, size * (size - 1) / 2);
}

enum what { send, receive, finalize, barrier, initialize, make_info, session, call_abort, whats };

static void call_mpi(enum what what) {
  int value = 1;
  MPI_Info info;
  MPI_Session made;
  switch (what) {
    case send:
      MPI_Send(&value, 1, MPI_INT, (rank + 1) % size, 9, MPI_COMM_WORLD);
      break;
    case receive:
      MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      break;
    case finalize:
      MPI_Finalize();
      break;
    case barrier:
      MPI_Barrier(MPI_COMM_WORLD);
      break;
    case initialize:
      MPI_Init(NULL, NULL);
      break;
    case make_info:
      MPI_Info_create(&info);
      break;
    case session:
      MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
      break;
    case call_abort:
      MPI_Abort(MPI_COMM_WORLD, 5);
      break;
    default:
      break;
  }
}

/* What a child that calls MPI says and how it ends. */
static void test_call(enum what what) {
  int ends[2], status = 0;
  char text[1000] = "";
  size_t length = 0;
  CHECK_EQUAL(pipe(ends), 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    in_child = 1;
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    call_mpi(what);
    _exit(0);
  }
  close(ends[1]);
  for (ssize_t got; (got = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
    length += (size_t)got;
  close(ends[0]);
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) != 0);
  CHECK(strstr(text, what == call_abort ? "MPI_Abort" : "the child of a fork"));
  CHECK(strchr(text, '\n') == text + strlen(text) - 1); /* one line */
}

static void test_exit(void) {
  int status = 0;
  for (int how = 0; how < 3; ++how) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      in_child = 1;
      unsetenv("CHECK_COUNTS"); /* it is no rank */
      if (how == 0) exit(3);
      if (how == 1) _exit(3);
      execl("/bin/sh", "sh", "-c", "exit 3", NULL);
      _exit(1);
    }
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 3);
  }
}

int main(int argc, char** argv) {
  char line[20] = "";
  int before = -1, finalized = -1, status = 0;
  atexit(exit_handler);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  /* Unmatched here while children are made. */
  MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 4, MPI_COMM_WORLD);
  exchange();
  CHECK_EQUAL(system("true"), 0);
  FILE* const program = popen("echo here", "r");
  CHECK(program && fgets(line, sizeof line, program) && strcmp(line, "here\n") == 0);
  CHECK_EQUAL(pclose(program), 0);
  test_exit();
  exchange();
  for (enum what what = 0; what < whats; ++what) {
    test_call(what);
    exchange();
  }
  MPI_Recv(&before, 1, MPI_INT, (rank + size - 1) % size, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK_EQUAL(before, (rank + size - 1) % size);
  MPI_Finalize();
  /* After the end a child is as any process. */
  const pid_t child = fork();
  if (child == 0) {
    MPI_Finalized(&finalized);
    _exit(finalized);
  }
  waitpid(child, &status, 0);
  CHECK_EQUAL(WEXITSTATUS(status), 1);
  return 0;
}
