/* Ranks that poll in every way that MPI has, and ranks that wait: none keeps the other from its turn. Prints
 * the time of a message of 8 bytes between ranks 0 and 1 where `time` is asked for. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, failures;

static void expect(int got, int wanted, const char* what) {
  if (got == wanted) return;
  ++failures;
  printf("rank %d: %s: %d, not %d\n", rank, what, got, wanted);
}

/* A token goes round, and each takes it in another way. */
static void round_trip(int way) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  int token = rank == 0 ? way : -1, flag = 0;
  MPI_Request request;
  MPI_Message message;
  MPI_Status status;
  if (rank == 0) MPI_Send(&token, 1, MPI_INT, next, way, MPI_COMM_WORLD);
  switch (way % 6) {
    case 0:
      MPI_Irecv(&token, 1, MPI_INT, before, way, MPI_COMM_WORLD, &request);
      while (!flag)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
      break;
    case 1:
      while (!flag)
        MPI_Iprobe(before, way, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
      MPI_Recv(&token, 1, MPI_INT, before, way, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      break;
    case 2:
      while (!flag)
        MPI_Improbe(before, way, MPI_COMM_WORLD, &flag, &message, &status);
      MPI_Mrecv(&token, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
      break;
    case 3:
      MPI_Irecv(&token, 1, MPI_INT, before, way, MPI_COMM_WORLD, &request);
      while (!flag)
        MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      break;
    case 4:
      MPI_Irecv(&token, 1, MPI_INT, before, way, MPI_COMM_WORLD, &request);
      while (!flag)
        MPI_Testall(1, &request, &flag, MPI_STATUSES_IGNORE);
      break;
    default:
      MPI_Recv(&token, 1, MPI_INT, before, way, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      break;
  }
  expect(token, way, "the token");
  if (rank != 0) MPI_Send(&token, 1, MPI_INT, next, way, MPI_COMM_WORLD);
}

/* Messages of all lengths, in place of each other's buffers, with data that says whose they are. */
static void exchange(int bytes) {
  unsigned char* const out = malloc((size_t)bytes + 1);
  unsigned char* const in = malloc((size_t)bytes + 1);
  const int peer = rank ^ 1;
  if (peer < size) {
    memset(out, rank + 1, (size_t)bytes);
    memset(in, 0, (size_t)bytes);
    MPI_Sendrecv(out, bytes, MPI_BYTE, peer, 5, in, bytes, MPI_BYTE, peer, 5, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < bytes; ++i)
      if (in[i] != (unsigned char)(peer + 1)) {
        expect(in[i], peer + 1, "a byte");
        break;
      }
  }
  free(out);
  free(in);
}

static void time_message(void) {
  enum { blocks = 200, each = 1000 };
  double best = 1;
  char data[8] = {0};
  for (int block = 0; block < blocks && rank < 2; ++block) {
    const double begin = MPI_Wtime();
    for (int i = 0; i < each; ++i)
      if (rank == 0) {
        MPI_Send(data, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(data, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else {
        MPI_Recv(data, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(data, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
      }
    const double took = (MPI_Wtime() - begin) / each / 2;
    if (took < best) best = took;
  }
  if (rank == 0) printf("8 B: %.1f ns one way\n", best * 1e9);
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int way = 0; way < 24 && size > 1; ++way)
    round_trip(way);
  for (int bytes = 1; bytes <= 4 << 20; bytes *= 4)
    exchange(bytes);
  if (argc > 1 && strcmp(argv[1], "time") == 0) time_message();
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks, %d failures\n", size, failures);
  MPI_Finalize();
  return failures != 0;
}
