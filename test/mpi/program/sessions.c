/* Sessions at the job's edges. alone: two, one after the other, and no MPI_Init; the second half of the job
   ends a second later. after: one behind MPI_Finalize, that sums over all. exits: as alone, and then exits
   with 7. early: the last one ends, and the others go on for a second. Each rank prints a line. */
#define _DEFAULT_SOURCE  // usleep
#include "../check.h"

/* The sum of all ranks' 1, or the error of opening a session. */
static int sum_of_session(int* sum) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  const int one = 1;
  const int code = MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  if (code != MPI_SUCCESS) return code;
  CHECK_MPI(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
  CHECK_MPI(MPI_Comm_create_from_group(group, "sum", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
  CHECK_MPI(MPI_Group_free(&group));
  CHECK_MPI(MPI_Allreduce(&one, sum, 1, MPI_INT, MPI_SUM, comm));
  CHECK_MPI(MPI_Comm_free(&comm));
  CHECK_MPI(MPI_Session_finalize(&session));
  return MPI_SUCCESS;
}

/* All but the last rank sum for a second, again and again. Who is the last. */
static int go_on_without_last(void) {
  MPI_Session session;
  MPI_Group all, group;
  MPI_Comm comm;
  int rank, size;
  CHECK_MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
  CHECK_MPI(MPI_Group_from_session_pset(session, "mpi://WORLD", &all));
  CHECK_MPI(MPI_Group_rank(all, &rank));
  CHECK_MPI(MPI_Group_size(all, &size));
  const int last = size - 1;
  if (rank != last) {
    CHECK_MPI(MPI_Group_excl(all, 1, &last, &group));
    CHECK_MPI(MPI_Comm_create_from_group(group, "rest", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK_MPI(MPI_Group_free(&group));
    for (int i = 0; i < 100; ++i) {
      const int one = 1;
      int sum = 0;
      CHECK_MPI(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
      CHECK(sum == last);
      usleep(10000);
    }
    CHECK_MPI(MPI_Comm_free(&comm));
  }
  CHECK_MPI(MPI_Group_free(&all));
  CHECK_MPI(MPI_Session_finalize(&session));
  return rank == last;
}

int main(int argc, char** argv) {
  const char* way = argc > 1 ? argv[1] : "";
  int sum = 0, rank = -1;
  if (!strcmp(way, "after")) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Finalize();
  }
  int code = MPI_SUCCESS;
  for (int i = 0; i < 2 && code == MPI_SUCCESS; ++i)
    code = sum_of_session(&sum);
  if (code == MPI_SUCCESS) {
    printf("sum %d\n", sum);
  } else {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    printf("refused: %s\n", text);
  }
  fflush(stdout);
  if (!strcmp(way, "early") && go_on_without_last()) return 0;
  if (!strcmp(way, "alone") && getpid() % 2 == 0) sleep(1);
  return strcmp(way, "exits") ? 0 : 7;
}
