/* What the programs of this folder state about MPI. They are plain MPI and print nothing when all is right;
   what is wrong is one line on stderr with place and rank, and ends the job. */
#ifndef ISTHMUS_TEST_CHECK_H
#define ISTHMUS_TEST_CHECK_H

#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How many checks this process has made; several threads count. */
static long check_count;
static inline void check_counted(void) {
  __atomic_fetch_add(&check_count, 1, __ATOMIC_RELAXED);
}

/* Appends the number to the file that the environment names, so that who runs the program sees a job which
   checks nothing. */
static void check_report(void) {
  const char* path = getenv("CHECK_COUNTS");
  if (!path) return;
  char line[32];
  const int length = snprintf(line, sizeof line, "%ld\n", check_count);
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
  if (file < 0 || write(file, line, (size_t)length) != length) perror(path);
  if (file >= 0) close(file);
}
__attribute__((constructor)) static void check_begin(void) {
  atexit(check_report);
}

static inline void check_failed(const char* file, int line, const char* what, const char* why) {
  int rank = -1, initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized && !finalized) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "%s:%d: rank %d: %s%s%s\n", file, line, rank, what, *why ? ": " : "", why);
  fflush(stderr);
  if (initialized && !finalized) MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

/* `condition` holds. */
#define CHECK(condition)                                                \
  do {                                                                  \
    check_counted();                                                    \
    if (!(condition)) check_failed(__FILE__, __LINE__, #condition, ""); \
  } while (0)

/* Two integers are equal; both are shown where they are not. */
#define CHECK_EQUAL(actual, expected)                                                                 \
  do {                                                                                                \
    check_counted();                                                                                  \
    const long long check_actual_ = (long long)(actual), check_expected_ = (long long)(expected);     \
    if (check_actual_ != check_expected_) {                                                           \
      char check_text_[96];                                                                           \
      snprintf(check_text_, sizeof check_text_, "is %lld, not %lld", check_actual_, check_expected_); \
      check_failed(__FILE__, __LINE__, #actual, check_text_);                                         \
    }                                                                                                 \
  } while (0)

/* The MPI call succeeds. For calls whose error handler is MPI_ERRORS_RETURN; others end the job by
 * themselves. */
#define CHECK_MPI(call)                                           \
  do {                                                            \
    check_counted();                                              \
    const int check_code_ = (call);                               \
    if (check_code_ != MPI_SUCCESS) {                             \
      char check_text_[MPI_MAX_ERROR_STRING];                     \
      int check_length_ = 0;                                      \
      MPI_Error_string(check_code_, check_text_, &check_length_); \
      check_failed(__FILE__, __LINE__, #call, check_text_);       \
    }                                                             \
  } while (0)

/* The MPI call fails with an error of class `expected`, whose string contains `text` ("" for any). */
#define CHECK_ERROR(call, expected, text)                                                               \
  do {                                                                                                  \
    check_counted();                                                                                    \
    const int check_code_ = (call);                                                                     \
    int check_class_ = MPI_SUCCESS, check_length_ = 0;                                                  \
    char check_text_[MPI_MAX_ERROR_STRING] = "success", check_why_[2 * MPI_MAX_ERROR_STRING];           \
    if (check_code_ != MPI_SUCCESS) {                                                                   \
      MPI_Error_class(check_code_, &check_class_);                                                      \
      MPI_Error_string(check_code_, check_text_, &check_length_);                                       \
    }                                                                                                   \
    if (check_class_ != (expected) || !strstr(check_text_, text)) {                                     \
      snprintf(check_why_, sizeof check_why_, "not with \"%.300s\" but \"%.600s\"", text, check_text_); \
      check_failed(__FILE__, __LINE__, #call " should fail with " #expected, check_why_);               \
    }                                                                                                   \
  } while (0)

#endif
