// ranks: 2
// MPI_Wait is local after MPI_Cancel (MPI 5.0, section 3.8.4), also of a send that has been matched, whose
// receiver is not in MPI, and whose sender the kernel lets read the receiver's memory, not write it.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"
#include "../told.h"

static void refuse_writing(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
  CHECK_EQUAL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  CHECK_EQUAL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void send_and_cancel(int bytes, char* buffer) {
  MPI_Request request;
  MPI_Status status;
  int cancelled = 1;
  for (int i = 0; i < bytes; ++i)
    buffer[i] = (char)(i * 7);
  MPI_Issend(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
  CHECK(hear(0));  // it has been matched
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(!cancelled);
  say(1);
}

static void receive(int bytes, char* buffer) {
  MPI_Request request;
  MPI_Probe(0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Irecv(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
  say(0);
  CHECK(hear(1));  // the sender's wait has ended, without this rank
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  int wrong = 0;
  for (int i = 0; i < bytes; ++i)
    wrong += buffer[i] != (char)(i * 7);
  CHECK_EQUAL(wrong, 0);
}

int main(int argc, char** argv) {
  enum { most = 4 << 20 };
  static char buffer[most];
  int rank = 0;
  const char* first = getenv("ISTHMUS_WORLD_RANK");
  if (first && atoi(first) == 0) refuse_writing();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int bytes = most / 16; bytes <= most; bytes *= 4) {
    begin_saying();
    if (rank == 0)
      send_and_cancel(bytes, buffer);
    else
      receive(bytes, buffer);
    end_saying();
  }
  MPI_Finalize();
  return 0;
}
