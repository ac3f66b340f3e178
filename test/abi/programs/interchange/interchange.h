#ifndef INTERCHANGE_H
#define INTERCHANGE_H

#include <mpi.h>
#include <stdio.h>

extern int rank, size; /* in MPI_COMM_WORLD */
extern int wrong;      /* checks that failed */

/* Adds to what this rank will print. */
void record(const char* format, ...);
void show_status(const char* what, const MPI_Status* status, MPI_Datatype type);
int error_class(int code);

#define CHECK(condition)                                                                       \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      ++wrong;                                                                                 \
      fprintf(stderr, "rank %d, %s:%d: not true: %s\n", rank, __FILE__, __LINE__, #condition); \
    }                                                                                          \
  } while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)

void blocking(void);
void nonblocking(void);
void memory(void);
void derived_types(void);
void named_types(void);
void reductions(void);
void collectives(void);
void errors(void);
void attributes(void);
void communicators(void);
void infos(void);
void handles(void);

#endif
