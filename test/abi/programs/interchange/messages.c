/* Part of the interchange program; see main.c. */

#include "interchange.h"

#include <string.h>

void blocking(void) {
  int ring[4] = {rank, rank + 1, rank + 2, rank + 3}, got[8], flag, i;
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Status status;
  MPI_Message message;

  memset(&status, 0x5a, sizeof status);
  OK(MPI_Sendrecv(ring, 4, MPI_INT, next, 17, got, 8, MPI_INT, previous, MPI_ANY_TAG, MPI_COMM_WORLD,
                  &status));
  show_status("sendrecv", &status, MPI_INT);
  for (i = 0; i < 4; ++i)
    CHECK(got[i] == previous + i);
  CHECK(status.MPI_ERROR == 0x5a5a5a5a); /* set only by calls that complete several requests */

  OK(MPI_Recv(got, 8, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status));
  show_status("from nobody", &status, MPI_INT);
  OK(MPI_Probe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status));
  OK(MPI_Mprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &message, &status));
  CHECK(message == MPI_MESSAGE_NO_PROC);
  OK(MPI_Mrecv(got, 8, MPI_INT, &message, &status));
  CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL);

  if (rank == 0) {
    OK(MPI_Ssend(ring, 3, MPI_INT, 1, 5, MPI_COMM_WORLD));
    OK(MPI_Send_c(ring, (MPI_Count)2, MPI_INT, 1, 6, MPI_COMM_WORLD));
  } else if (rank == 1) {
    OK(MPI_Probe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status));
    show_status("probe", &status, MPI_INT);
    OK(MPI_Mprobe(0, 5, MPI_COMM_WORLD, &message, &status));
    CHECK(message != MPI_MESSAGE_NULL && message != MPI_MESSAGE_NO_PROC);
    OK(MPI_Mrecv(got, 8, MPI_INT, &message, &status));
    show_status("mrecv", &status, MPI_INT);
    CHECK(message == MPI_MESSAGE_NULL);
    OK(MPI_Recv_c(got, (MPI_Count)8, MPI_INT, 0, 6, MPI_COMM_WORLD, &status));
    show_status("received by large count", &status, MPI_INT);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
    CHECK(flag == 0);
  }
}

void nonblocking(void) {
  int out[3] = {10 * rank, 10 * rank + 1, 10 * rank + 2}, in[3] = {-1, -1, -1}, index, flag, i, done = 0,
      indices[6];
  MPI_Request requests[6];
  MPI_Status statuses[6];
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;

  for (i = 0; i < 3; ++i) {
    OK(MPI_Irecv(in + i, 1, MPI_INT, previous, i, MPI_COMM_WORLD, requests + i));
    OK(MPI_Isend(out + i, 1, MPI_INT, next, i, MPI_COMM_WORLD, requests + 3 + i));
    CHECK(requests[i] != MPI_REQUEST_NULL);
  }
  OK(MPI_Waitall(6, requests, statuses));
  for (i = 0; i < 3; ++i) {
    CHECK(in[i] == 10 * previous + i && requests[i] == MPI_REQUEST_NULL);
    show_status("waitall", statuses + i, MPI_INT);
  }
  OK(MPI_Waitany(6, requests, &index, statuses));
  record("waitany of nothing: index %d, source %d, tag %d\n", index, statuses[0].MPI_SOURCE,
         statuses[0].MPI_TAG);
  OK(MPI_Testall(6, requests, &flag, MPI_STATUSES_IGNORE));
  CHECK(flag);

  OK(MPI_Recv_init(in, 1, MPI_INT, previous, 9, MPI_COMM_WORLD, requests));
  OK(MPI_Send_init(out, 1, MPI_INT, next, 9, MPI_COMM_WORLD, requests + 1));
  for (i = 0; i < 2; ++i) {
    out[0] = rank + 100 * i;
    OK(MPI_Startall(2, requests));
    for (done = 0; done < 2;) {
      int completed;
      OK(MPI_Waitsome(2, requests, &completed, indices, statuses));
      CHECK(completed > 0);
      done += completed;
    }
    CHECK(in[0] == previous + 100 * i && requests[0] != MPI_REQUEST_NULL);
  }
  OK(MPI_Request_free(requests));
  OK(MPI_Request_free(requests + 1));
  CHECK(requests[0] == MPI_REQUEST_NULL);

  OK(MPI_Irecv(in, 1, MPI_INT, rank, 77, MPI_COMM_WORLD, requests));
  OK(MPI_Cancel(requests));
  OK(MPI_Wait(requests, statuses));
  OK(MPI_Test_cancelled(statuses, &flag));
  record("cancelled: %d\n", flag);

  OK(MPI_Status_set_source(statuses, 4));
  OK(MPI_Status_set_tag(statuses, 5));
  OK(MPI_Status_set_error(statuses, MPI_ERR_OTHER));
  OK(MPI_Status_set_elements(statuses, MPI_DOUBLE, 7));
  OK(MPI_Status_set_cancelled(statuses, 0));
  show_status("a status that was set", statuses, MPI_DOUBLE);
  CHECK(statuses->MPI_ERROR == MPI_ERR_OTHER);
}

void memory(void) {
  int* numbers;
  MPI_Aint where;
  MPI_Datatype absolute;
  const int one[1] = {1};
  int value = 5 + rank;
  OK(MPI_Alloc_mem(1024, MPI_INFO_NULL, &numbers));
  OK(MPI_Get_address(numbers, &where));
  OK(MPI_Type_create_hindexed(1, one, &where, MPI_INT, &absolute));
  OK(MPI_Type_commit(&absolute));
  OK(MPI_Sendrecv(&value, 1, MPI_INT, rank, 0, MPI_BOTTOM, 1, absolute, rank, 0, MPI_COMM_WORLD,
                  MPI_STATUS_IGNORE));
  CHECK(numbers[0] == value);
  OK(MPI_Type_free(&absolute));
  OK(MPI_Free_mem(numbers));
}
