/* What every MPI with the standard ABI does in the same way, of the things that the ABI fixes: the values of
   handles and constants, the layout of a status, what callbacks are given, error classes, sizes of types. The
   test runs this program under two MPIs, as compiled against either, and compares what it prints; so it
   prints nothing that a library may choose. */

#include <stdarg.h>
#include <stddef.h>

#include "interchange.h"

#define TEXT_SIZE 65536

int rank, size, wrong;
static char text[TEXT_SIZE]; /* what this rank will print */
static size_t used;

void record(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  used += (size_t)vsnprintf(text + used, TEXT_SIZE - used, format, arguments);
  va_end(arguments);
  if (used + 1 >= TEXT_SIZE) MPI_Abort(MPI_COMM_WORLD, 9);
}

int error_class(int code) {
  int result = -1;
  OK(MPI_Error_class(code, &result));
  return result;
}

void show_status(const char* what, const MPI_Status* status, MPI_Datatype type) {
  int count, elements, cancelled, source, tag;
  OK(MPI_Get_count(status, type, &count));
  OK(MPI_Get_elements(status, type, &elements));
  OK(MPI_Test_cancelled(status, &cancelled));
  OK(MPI_Status_get_source(status, &source));
  OK(MPI_Status_get_tag(status, &tag));
  CHECK(source == status->MPI_SOURCE && tag == status->MPI_TAG);
  record("%s: source %d, tag %d, count %d, elements %d, cancelled %d\n", what, source, tag, count, elements,
         cancelled);
}

static void versions(void) {
  int major, minor;
  OK(MPI_Get_version(&major, &minor));
  record("MPI %d", major);
  OK(MPI_Abi_get_version(&major, &minor));
  record(", ABI %d.%d\n", major, minor);
  CHECK(MPI_VERSION == 5 && MPI_ABI_VERSION == 1);
}

/* Ranks print in order. */
static void print_all(void) {
  int from, length = (int)used;
  if (rank != 0) {
    OK(MPI_Send(text, length, MPI_CHAR, 0, 99, MPI_COMM_WORLD));
    return;
  }
  for (from = 0; from < size; ++from) {
    if (from != 0) {
      MPI_Status status;
      OK(MPI_Recv(text, TEXT_SIZE, MPI_CHAR, from, 99, MPI_COMM_WORLD, &status));
      OK(MPI_Get_count(&status, MPI_CHAR, &length));
    }
    printf("rank %d\n%.*s", from, length, text);
  }
}

int main(int argc, char** argv) {
  int provided, length, all_wrong;
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
  OK(MPI_Get_library_version(version, &length));
  if (rank == 0) fprintf(stderr, "library: %s\n", version);
  versions();
  blocking();
  nonblocking();
  derived_types();
  named_types();
  reductions();
  collectives();
  errors();
  attributes();
  communicators();
  infos();
  handles();
  memory();
  print_all();
  OK(MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  OK(MPI_Finalize());
  return all_wrong == 0 ? 0 : 1;
}
