// ranks: 2
// MPI_Wait is local after MPI_Cancel (MPI 5.0, section 3.8.4), also of many sends that have been matched,
// whose receiver is not in MPI.
#define _GNU_SOURCE
#include <mpi.h>

#include "../check.h"
#include "../told.h"

enum { count = 40, most = 1 << 20 };
static char buffer[count][most];

static char byte_of(int message, int i) {
  return (char)(message * 13 + i * 7);
}

static void send_and_cancel(int bytes) {
  MPI_Request requests[count];
  for (int k = 0; k < count; ++k) {
    for (int i = 0; i < bytes; ++i)
      buffer[k][i] = byte_of(k, i);
    MPI_Issend(buffer[k], bytes, MPI_BYTE, 1, k, MPI_COMM_WORLD, &requests[k]);
  }
  CHECK(hear(0));  // all have been matched
  for (int k = 0; k < count; ++k)
    MPI_Cancel(&requests[k]);
  for (int k = count; k-- > 0;) {
    MPI_Status status;
    int cancelled = 1;
    MPI_Wait(&requests[k], &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(!cancelled);
    for (int i = 0; i < bytes; ++i)
      buffer[k][i] = 0;  // it is the program's again
  }
  say(1);
}

static void receive(int bytes) {
  MPI_Request requests[count];
  for (int k = count; k-- > 0;)
    MPI_Probe(0, k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int k = 0; k < count; ++k)
    MPI_Irecv(buffer[k], bytes, MPI_BYTE, 0, k, MPI_COMM_WORLD, &requests[k]);
  say(0);
  CHECK(hear(1));  // the sender's waits have ended, without this rank
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  int wrong = 0;
  for (int k = 0; k < count; ++k)
    for (int i = 0; i < bytes; ++i)
      wrong += buffer[k][i] != byte_of(k, i);
  CHECK_EQUAL(wrong, 0);
}

int main(int argc, char** argv) {
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int bytes = most / 16; bytes <= most; bytes *= 4) {
    begin_saying();
    if (rank == 0)
      send_and_cancel(bytes);
    else
      receive(bytes);
    end_saying();
  }
  MPI_Finalize();
  return 0;
}
