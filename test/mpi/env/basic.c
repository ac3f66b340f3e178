/* Inquiry, clock, memory, thread levels, and what may be called before MPI_Init and after MPI_Finalize. */
#define _DEFAULT_SOURCE  // gethostname, usleep
#include "../check.h"

#include <unistd.h>

static void anytime(int initialized, int finalized) {
  int flag = -1, version = 0, subversion = 0, length = 0, major = -1, minor = -1, code;
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Initialized(&flag);
  CHECK_EQUAL(flag, initialized);
  MPI_Finalized(&flag);
  CHECK_EQUAL(flag, finalized);
  MPI_Get_version(&version, &subversion);
  CHECK_EQUAL(version, MPI_VERSION);
  CHECK_EQUAL(subversion, MPI_SUBVERSION);
  MPI_Get_library_version(text, &length);
  CHECK(strstr(text, "Isthmus"));
  CHECK_EQUAL(length, strlen(text));
  MPI_Abi_get_version(&major, &minor);
  CHECK_EQUAL(major, MPI_ABI_VERSION);
  CHECK_EQUAL(minor, MPI_ABI_SUBVERSION);
  MPI_Error_class(MPI_ERR_RANK, &code);
  CHECK_EQUAL(code, MPI_ERR_RANK);
  MPI_Status status;
  memset(&status, 0, sizeof status);
  MPI_Status_set_source(&status, 5);
  MPI_Status_set_tag(&status, 6);
  MPI_Status_set_error(&status, 7);
  MPI_Status_get_source(&status, &code);
  CHECK_EQUAL(code, 5);
  MPI_Status_get_tag(&status, &code);
  CHECK_EQUAL(code, 6);
  MPI_Status_get_error(&status, &code);
  CHECK_EQUAL(code, 7);
}

int main(int argc, char** argv) {
  anytime(0, 0);
  CHECK_MPI(MPI_Init(NULL, NULL));
  (void)argc, (void)argv;
  anytime(1, 0);

  int provided = -1, flag = 0, length = 0;
  CHECK_MPI(MPI_Query_thread(&provided));
  CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE);
  CHECK_MPI(MPI_Is_thread_main(&flag));
  CHECK(flag);

  char name[MPI_MAX_PROCESSOR_NAME], host[256];
  CHECK_MPI(MPI_Get_processor_name(name, &length));
  CHECK_EQUAL(length, strlen(name));
  gethostname(host, sizeof host);
  CHECK(!strcmp(name, host));

  const double before = MPI_Wtime();
  usleep(20000);
  const double passed = MPI_Wtime() - before;
  CHECK(passed >= 0.02 && passed < 30);
  CHECK(MPI_Wtick() > 0 && MPI_Wtick() < 1e-3);
  MPI_Pcontrol(1);
  MPI_Pcontrol(2, "more", 3);

  /* One clock for all ranks: a message is not received before it was sent. */
  int rank, size, *is_global;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &is_global, &flag);
  if (flag && *is_global) {
    const double mine = MPI_Wtime();
    double theirs = 0;
    MPI_Sendrecv(&mine, 1, MPI_DOUBLE, (rank + 1) % size, 0, &theirs, 1, MPI_DOUBLE, (rank + size - 1) % size,
                 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(MPI_Wtime() >= theirs);
  }

  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_minimum_memory_alignment", "65536");
  MPI_Info_set(info, "no such hint", "whatever");
  char* memory = NULL;
  CHECK_MPI(MPI_Alloc_mem(100000, info, &memory));
  CHECK_EQUAL((uintptr_t)memory % 65536, 0);
  memset(memory, 1, 100000);
  CHECK_MPI(MPI_Free_mem(memory));
  MPI_Info_set(info, "mpi_minimum_memory_alignment", "seven");
  CHECK_MPI(MPI_Alloc_mem(0, info, &memory));
  CHECK_MPI(MPI_Free_mem(memory));
  MPI_Info_free(&info);
  CHECK_MPI(MPI_Alloc_mem(1, MPI_INFO_NULL, &memory));
  CHECK_EQUAL((uintptr_t)memory % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
  CHECK_MPI(MPI_Free_mem(memory));

  MPI_Info abi;
  char value[16];
  length = sizeof value;
  CHECK_MPI(MPI_Abi_get_info(&abi));
  CHECK_MPI(MPI_Info_get_string(abi, "mpi_aint_size", &length, value, &flag));
  CHECK(flag && atoi(value) == (int)sizeof(MPI_Aint));
  MPI_Info_free(&abi);

  CHECK_MPI(MPI_Finalize());
  anytime(1, 1);
  return 0;
}
