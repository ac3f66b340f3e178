/* Cancelled receives complete as cancelled and take no message; a receive that has matched completes with its
   message in spite of MPI_Cancel (MPI 5.0, section 3.8.4). */
#include "../check.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size, in[3] = {-1, -1, -1}, flag, count;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Request requests[3];
  MPI_Status status, statuses[3];

  /* The middle one of three receives is cancelled: the second message goes to the third. */
  for (int i = 0; i < 3; ++i)
    MPI_Irecv(&in[i], 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[i]);
  CHECK_MPI(MPI_Cancel(&requests[1]));
  CHECK(requests[1] != MPI_REQUEST_NULL);
  CHECK_MPI(MPI_Wait(&requests[1], &status));
  MPI_Test_cancelled(&status, &flag);
  CHECK(flag);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 10; i < 12; ++i)
    MPI_Send(&i, 1, MPI_INT, right, 1, MPI_COMM_WORLD);
  CHECK_MPI(MPI_Waitall(3, requests, statuses));
  CHECK_EQUAL(in[0], 10);
  CHECK_EQUAL(in[1], -1);
  CHECK_EQUAL(in[2], 11);
  MPI_Test_cancelled(&statuses[0], &flag);
  CHECK(!flag);

  /* Complete already: the message stands. */
  MPI_Irecv(&in[0], 1, MPI_INT, left, 2, MPI_COMM_WORLD, &requests[0]);
  MPI_Send(&rank, 1, MPI_INT, right, 2, MPI_COMM_WORLD);
  for (flag = 0; !flag;)
    MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
  CHECK_MPI(MPI_Cancel(&requests[0]));
  CHECK_MPI(MPI_Wait(&requests[0], &status));
  MPI_Test_cancelled(&status, &flag);
  CHECK(!flag);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK_EQUAL(count, 1);
  CHECK_EQUAL(in[0], left);

  /* Cancelled, then freed. A wildcard, too. */
  MPI_Irecv(&in[0], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
  CHECK_MPI(MPI_Cancel(&requests[0]));
  CHECK_MPI(MPI_Request_free(&requests[0]));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Sendrecv(&rank, 1, MPI_INT, right, 3, &in[1], 1, MPI_INT, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK_EQUAL(in[1], left);

  /* A small send that left at once is not cancelled; and cancelling it is no error. */
  MPI_Isend(&rank, 1, MPI_INT, right, 4, MPI_COMM_WORLD, &requests[0]);
  CHECK_MPI(MPI_Cancel(&requests[0]));
  CHECK_MPI(MPI_Wait(&requests[0], &status));
  MPI_Test_cancelled(&status, &flag);
  if (!flag) MPI_Recv(&in[2], 1, MPI_INT, left, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return 0;
}
