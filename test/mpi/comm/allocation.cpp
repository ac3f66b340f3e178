// ranks: 3
// Memory runs out at the n-th allocation of one member, for every n, in MPI_Comm_idup and in the agreements
// of user-level failure mitigation: a call fails with MPI_ERR_NO_MEM and has begun nothing, or what it has
// begun ends at all members, and can be waited for again where the wait had no memory.
#include <mpi-ext.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "../check.h"
#include "../failing_new.h"

namespace {

int rank = 0, size = 0, victim = 0, key = MPI_KEYVAL_INVALID;
char attribute = 0;

/// The class of an error, which only want of memory may be.
int class_of(int code, const char* what) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  const bool is_expected =
      error_class == MPI_SUCCESS || error_class == MPI_ERR_NO_MEM || error_class == MPIX_ERR_REVOKED;
  if (!is_expected) std::fprintf(stderr, "%s: class %d\n", what, error_class);
  CHECK(is_expected);
  return error_class;
}

/// Again, where the wait had no memory; what has ended for want of it is gone.
int wait(MPI_Request* request, const char* what) {
  int code = MPI_Wait(request, MPI_STATUS_IGNORE);
  const bool goes_on = class_of(code, what) == MPI_ERR_NO_MEM && *request != MPI_REQUEST_NULL;
  return goes_on ? MPI_Wait(request, MPI_STATUS_IGNORE) : code;
}

/// At the victim the allocation of that number fails in `body`; whether it has been reached.
template <class Body>
bool fails_at(long number, const Body& body) {
  has_failed = false;
  countdown = rank == victim ? number : 0;
  body();
  countdown = 0;
  int hit = has_failed ? 1 : 0;
  CHECK_MPI(MPI_Bcast(&hit, 1, MPI_INT, victim, MPI_COMM_WORLD));
  return hit != 0;
}

void check_copy(MPI_Comm copy) {
  void* value = nullptr;
  int flag = 0, sum = 0;
  CHECK_MPI(MPI_Comm_get_attr(copy, key, &value, &flag));
  CHECK(flag && value == &attribute);
  CHECK_MPI(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, copy));
  CHECK_EQUAL(sum, size * (size - 1) / 2);
}

/// Who cannot go on revokes the communicator, as the others wait for it.
bool duplicates(long number) {
  MPI_Comm comm = MPI_COMM_NULL, copy = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  CHECK_MPI(MPI_Comm_set_attr(comm, key, &attribute));
  int code = MPI_SUCCESS;
  const bool hit = fails_at(number, [&] {
    code = MPI_Comm_idup(comm, &copy, &request);
    if (class_of(code, "MPI_Comm_idup") == MPI_SUCCESS)
      code = wait(&request, "MPI_Wait of MPI_Comm_idup");
    else
      CHECK(request == MPI_REQUEST_NULL);
    if (code != MPI_SUCCESS) {
      countdown = 0;
      CHECK_MPI(MPIX_Comm_revoke(comm));
    }
  });
  int worst = class_of(code, "MPI_Comm_idup and its end"), mine = worst;
  CHECK_MPI(MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
  if (worst == MPI_SUCCESS) check_copy(copy);
  if (mine == MPI_SUCCESS) CHECK_MPI(MPI_Comm_free(&copy));
  CHECK_MPI(MPI_Comm_free(&comm));
  return hit;
}

/// A call of an agreement that had no memory has not joined it.
template <class Call>
int insist(const Call& call) {
  const int code = call();
  return class_of(code, "an agreement") == MPI_ERR_NO_MEM ? call() : code;
}

bool agrees(long number) {
  MPI_Request request = MPI_REQUEST_NULL;
  int flag = 6 + rank % 2, later = 5;
  const bool hit = fails_at(number, [&] {
    CHECK_MPI(insist([&] { return MPIX_Comm_iagree(MPI_COMM_WORLD, &flag, &request); }));
    CHECK_MPI(wait(&request, "MPI_Wait of MPIX_Comm_iagree"));
    CHECK_MPI(insist([&] { return MPIX_Comm_agree(MPI_COMM_WORLD, &later); }));
  });
  CHECK_EQUAL(flag, 6);
  CHECK_EQUAL(later, 5);
  return hit;
}

bool shrinks(long number) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm left = MPI_COMM_NULL;
  int sum = 0;
  const bool hit = fails_at(number, [&] {
    CHECK_MPI(insist([&] { return MPIX_Comm_ishrink(MPI_COMM_WORLD, &left, &request); }));
    CHECK_MPI(wait(&request, "MPI_Wait of MPIX_Comm_ishrink"));
  });
  CHECK_MPI(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, left));
  CHECK_EQUAL(sum, size * (size - 1) / 2);
  CHECK_MPI(MPI_Comm_free(&left));
  return hit;
}

void exhaust(const char* name, bool (*scenario)(long)) {
  for (const int each : {0, size - 1}) {
    victim = each;
    long number = 1;
    for (bool hit = true; hit; ++number) {
      if (std::getenv("ALLOCATION_VERBOSE") && rank == 0)
        std::fprintf(stderr, "%s, victim %d, %ld\n", name, victim, number);
      hit = scenario(number);
      CHECK(number < 2000);
    }
    CHECK(number > 3);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  CHECK_MPI(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, nullptr));
  exhaust("MPI_Comm_idup", duplicates);
  exhaust("MPIX_Comm_iagree", agrees);
  exhaust("MPIX_Comm_ishrink", shrinks);
  CHECK_MPI(MPI_Comm_free_keyval(&key));
  MPI_Finalize();
  return 0;
}
