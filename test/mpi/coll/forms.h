/* The collectives of a test program in the form that TEST_COLL_FORM names: `nonblocking`, `persistent`, or
 * blocking without it. A program that includes this calls the blocking functions, which are defined here as a
 * tool would define them (MPI 5.0, section 15.2), so that one text tests all forms. */
#ifndef ISTHMUS_TEST_COLL_FORMS_H
#define ISTHMUS_TEST_COLL_FORMS_H

#include <string_view>

#include "../check.h"

enum class CollForm { blocking, nonblocking, persistent };

inline CollForm coll_form() {
  static const CollForm form = [] {
    const char* const said = getenv("TEST_COLL_FORM");
    const std::string_view name = said ? said : "blocking";
    if (name == "nonblocking") return CollForm::nonblocking;
    if (name == "persistent") return CollForm::persistent;
    CHECK(name == "blocking");
    return CollForm::blocking;
  }();
  return form;
}

/* Waits as programs do: in one go, or by tests. */
inline int coll_wait(MPI_Request* request) {
  static int calls = 0;
  if (++calls % 3 != 0) return PMPI_Wait(request, MPI_STATUS_IGNORE);
  int flag = 0, code = MPI_SUCCESS;
  while (!flag && code == MPI_SUCCESS)
    code = PMPI_Test(request, &flag, MPI_STATUS_IGNORE);
  return code;
}

template <class Blocking, class Nonblocking, class Persistent>
int in_coll_form(Blocking blocking, Nonblocking nonblocking, Persistent persistent) {
  if (coll_form() == CollForm::blocking) return blocking();
  MPI_Request request = MPI_REQUEST_NULL;
  if (coll_form() == CollForm::nonblocking) {
    const int code = nonblocking(&request);
    return code != MPI_SUCCESS ? code : coll_wait(&request);
  }
  int code = persistent(&request);
  if (code == MPI_SUCCESS) code = PMPI_Start(&request);
  if (code == MPI_SUCCESS) code = coll_wait(&request);
  if (request != MPI_REQUEST_NULL) PMPI_Request_free(&request);
  return code;
}

/* MPI_`blocking` and its large-count twin; PARAMETERS(count, place) with the types of counts and
 * displacements. */
#define IN_COLL_FORM(blocking, suffix, nonblocking, parameters, ...)                                        \
  extern "C" int MPI_##blocking##suffix parameters {                                                        \
    return in_coll_form(                                                                                    \
        [&] { return PMPI_##blocking##suffix(__VA_ARGS__); },                                               \
        [&](MPI_Request* out) { return PMPI_##nonblocking##suffix(__VA_ARGS__, out); },                     \
        [&](MPI_Request* out) { return PMPI_##blocking##_init##suffix(__VA_ARGS__, MPI_INFO_NULL, out); }); \
  }
#define IN_COLL_FORMS(blocking, nonblocking, parameters, ...)              \
  IN_COLL_FORM(blocking, , nonblocking, parameters(int, int), __VA_ARGS__) \
  IN_COLL_FORM(blocking, _c, nonblocking, parameters(MPI_Count, MPI_Aint), __VA_ARGS__)

IN_COLL_FORM(Barrier, , Ibarrier, (MPI_Comm comm), comm)
#define P(C, D) (void* b, C n, MPI_Datatype t, int root, MPI_Comm comm)
IN_COLL_FORMS(Bcast, Ibcast, P, b, n, t, root, comm)
#undef P
#define P(C, D) (const void* s, C n, MPI_Datatype t, void* r, C m, MPI_Datatype u, int root, MPI_Comm comm)
IN_COLL_FORMS(Gather, Igather, P, s, n, t, r, m, u, root, comm)
IN_COLL_FORMS(Scatter, Iscatter, P, s, n, t, r, m, u, root, comm)
#undef P
#define P(C, D) (const void* s, C n, MPI_Datatype t, void* r, C m, MPI_Datatype u, MPI_Comm comm)
IN_COLL_FORMS(Allgather, Iallgather, P, s, n, t, r, m, u, comm)
IN_COLL_FORMS(Alltoall, Ialltoall, P, s, n, t, r, m, u, comm)
#undef P
#define P(C, D)                                                                                     \
  (const void* s, C n, MPI_Datatype t, void* r, const C m[], const D d[], MPI_Datatype u, int root, \
   MPI_Comm comm)
IN_COLL_FORMS(Gatherv, Igatherv, P, s, n, t, r, m, d, u, root, comm)
#undef P
#define P(C, D)                                                                                     \
  (const void* s, const C n[], const D d[], MPI_Datatype t, void* r, C m, MPI_Datatype u, int root, \
   MPI_Comm comm)
IN_COLL_FORMS(Scatterv, Iscatterv, P, s, n, d, t, r, m, u, root, comm)
#undef P
#define P(C, D) \
  (const void* s, C n, MPI_Datatype t, void* r, const C m[], const D d[], MPI_Datatype u, MPI_Comm comm)
IN_COLL_FORMS(Allgatherv, Iallgatherv, P, s, n, t, r, m, d, u, comm)
#undef P
#define P(C, D)                                                                                \
  (const void* s, const C n[], const D d[], MPI_Datatype t, void* r, const C m[], const D e[], \
   MPI_Datatype u, MPI_Comm comm)
IN_COLL_FORMS(Alltoallv, Ialltoallv, P, s, n, d, t, r, m, e, u, comm)
#undef P
#define P(C, D)                                                                                        \
  (const void* s, const C n[], const D d[], const MPI_Datatype t[], void* r, const C m[], const D e[], \
   const MPI_Datatype u[], MPI_Comm comm)
IN_COLL_FORMS(Alltoallw, Ialltoallw, P, s, n, d, t, r, m, e, u, comm)
#undef P
#define P(C, D) (const void* s, void* r, C n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm comm)
IN_COLL_FORMS(Reduce, Ireduce, P, s, r, n, t, op, root, comm)
#undef P
#define P(C, D) (const void* s, void* r, C n, MPI_Datatype t, MPI_Op op, MPI_Comm comm)
IN_COLL_FORMS(Allreduce, Iallreduce, P, s, r, n, t, op, comm)
IN_COLL_FORMS(Reduce_scatter_block, Ireduce_scatter_block, P, s, r, n, t, op, comm)
IN_COLL_FORMS(Scan, Iscan, P, s, r, n, t, op, comm)
IN_COLL_FORMS(Exscan, Iexscan, P, s, r, n, t, op, comm)
#undef P
#define P(C, D) (const void* s, void* r, const C n[], MPI_Datatype t, MPI_Op op, MPI_Comm comm)
IN_COLL_FORMS(Reduce_scatter, Ireduce_scatter, P, s, r, n, t, op, comm)
#undef P

#endif
