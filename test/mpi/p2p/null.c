/* Every operation with MPI_PROC_NULL succeeds at once, and receives report what section 3.10 says. */
#include "../check.h"

static void check_null_status(const MPI_Status* status) {
  int count, cancelled;
  CHECK_EQUAL(status->MPI_SOURCE, MPI_PROC_NULL);
  CHECK_EQUAL(status->MPI_TAG, MPI_ANY_TAG);
  CHECK_MPI(MPI_Get_count(status, MPI_INT, &count));
  CHECK_EQUAL(count, 0);
  CHECK_MPI(MPI_Test_cancelled(status, &cancelled));
  CHECK(!cancelled);
}

static MPI_Status garbage(void) {
  MPI_Status status;
  memset(&status, 0x5a, sizeof status);
  return status;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const MPI_Comm world = MPI_COMM_WORLD;
  int data = 42, other = 43, flag;
  MPI_Status status, statuses[4];
  MPI_Request request, requests[4];
  MPI_Message message;

  CHECK_MPI(MPI_Send(&data, 1, MPI_INT, MPI_PROC_NULL, 0, world));
  CHECK_MPI(MPI_Ssend(&data, 1, MPI_INT, MPI_PROC_NULL, 0, world));
  CHECK_MPI(MPI_Rsend(&data, 1, MPI_INT, MPI_PROC_NULL, 0, world));
  CHECK_MPI(MPI_Bsend(&data, 1, MPI_INT, MPI_PROC_NULL, 0, world));
  status = garbage();
  CHECK_MPI(MPI_Recv(&data, 1, MPI_INT, MPI_PROC_NULL, 3, world, &status));
  check_null_status(&status);
  CHECK_MPI(MPI_Recv(&data, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, world, MPI_STATUS_IGNORE));
  status = garbage();
  CHECK_MPI(MPI_Probe(MPI_PROC_NULL, 3, world, &status));
  check_null_status(&status);
  status = garbage();
  flag = 0;
  CHECK_MPI(MPI_Iprobe(MPI_PROC_NULL, 3, world, &flag, &status));
  CHECK(flag);
  check_null_status(&status);

  status = garbage();
  CHECK_MPI(MPI_Mprobe(MPI_PROC_NULL, 3, world, &message, &status));
  check_null_status(&status);
  CHECK(message == MPI_MESSAGE_NO_PROC);
  status = garbage();
  CHECK_MPI(MPI_Mrecv(&data, 1, MPI_INT, &message, &status));
  check_null_status(&status);
  CHECK(message == MPI_MESSAGE_NULL);
  flag = 0;
  CHECK_MPI(MPI_Improbe(MPI_PROC_NULL, 3, world, &flag, &message, MPI_STATUS_IGNORE));
  CHECK(flag && message == MPI_MESSAGE_NO_PROC);
  CHECK_MPI(MPI_Imrecv(&data, 1, MPI_INT, &message, &request));
  CHECK(message == MPI_MESSAGE_NULL);
  status = garbage();
  CHECK_MPI(MPI_Wait(&request, &status));
  check_null_status(&status);

  MPI_Isend(&data, 1, MPI_INT, MPI_PROC_NULL, 0, world, &requests[0]);
  MPI_Issend(&data, 1, MPI_INT, MPI_PROC_NULL, 0, world, &requests[1]);
  MPI_Irecv(&data, 1, MPI_INT, MPI_PROC_NULL, 0, world, &requests[2]);
  MPI_Ibsend(&data, 1, MPI_INT, MPI_PROC_NULL, 0, world, &requests[3]);
  for (int i = 0; i < 4; ++i)
    CHECK(requests[i] != MPI_REQUEST_NULL);
  statuses[2] = garbage();
  CHECK_MPI(MPI_Testall(4, requests, &flag, statuses));
  CHECK(flag);
  check_null_status(&statuses[2]);
  for (int i = 0; i < 4; ++i)
    CHECK(requests[i] == MPI_REQUEST_NULL);

  status = garbage();
  CHECK_MPI(MPI_Sendrecv(&data, 1, MPI_INT, MPI_PROC_NULL, 0, &other, 1, MPI_INT, MPI_PROC_NULL, 0, world,
                         &status));
  check_null_status(&status);
  status = garbage();
  CHECK_MPI(MPI_Sendrecv_replace(&data, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, world, &status));
  check_null_status(&status);
  CHECK_MPI(MPI_Isendrecv(&data, 1, MPI_INT, MPI_PROC_NULL, 0, &other, 1, MPI_INT, MPI_PROC_NULL, 0, world,
                          &request));
  status = garbage();
  CHECK_MPI(MPI_Wait(&request, &status));
  check_null_status(&status);

  MPI_Send_init(&data, 1, MPI_INT, MPI_PROC_NULL, 0, world, &requests[0]);
  MPI_Recv_init(&data, 1, MPI_INT, MPI_PROC_NULL, 0, world, &requests[1]);
  for (int round = 0; round < 2; ++round) {
    CHECK_MPI(MPI_Startall(2, requests));
    statuses[1] = garbage();
    CHECK_MPI(MPI_Waitall(2, requests, statuses));
    check_null_status(&statuses[1]);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);

  /* One real side. */
  int rank;
  MPI_Comm_rank(world, &rank);
  MPI_Irecv(&other, 1, MPI_INT, rank, 9, world, &request);
  CHECK_MPI(MPI_Sendrecv(&rank, 1, MPI_INT, rank, 9, &data, 1, MPI_INT, MPI_PROC_NULL, 9, world, &status));
  check_null_status(&status);
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK_EQUAL(other, rank);
  CHECK_EQUAL(data, 42);
  MPI_Finalize();
  return 0;
}
