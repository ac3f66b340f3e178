/* Wrong arguments of collectives: the class that the standard names, and a sentence that says which argument.
 * Errors are found before anything is sent, so every rank may make them alone. ranks: 1 2 3 */
#include "../check.h"

static int rank, size;

static void roots(MPI_Comm comm) {
  int word = 0, all[16];
  CHECK_ERROR(MPI_Bcast(&word, 1, MPI_INT, size, comm), MPI_ERR_ROOT, "root");
  CHECK_ERROR(MPI_Bcast(&word, 1, MPI_INT, -1, comm), MPI_ERR_ROOT, "MPI_Bcast");
  CHECK_ERROR(MPI_Bcast(&word, 1, MPI_INT, MPI_ROOT, comm), MPI_ERR_ROOT, "root");
  CHECK_ERROR(MPI_Gather(&word, 1, MPI_INT, all, 1, MPI_INT, size, comm), MPI_ERR_ROOT, "MPI_Gather");
  CHECK_ERROR(MPI_Scatter(all, 1, MPI_INT, &word, 1, MPI_INT, -5, comm), MPI_ERR_ROOT, "MPI_Scatter");
  CHECK_ERROR(MPI_Reduce(&word, all, 1, MPI_INT, MPI_SUM, size, comm), MPI_ERR_ROOT, "MPI_Reduce");
  CHECK_ERROR(MPI_Gatherv(&word, 1, MPI_INT, all, all, all, MPI_INT, MPI_PROC_NULL, comm), MPI_ERR_ROOT,
              "root");
}

static void buffers(MPI_Comm comm) {
  int word = 0, all[64] = {0};
  CHECK_ERROR(MPI_Bcast(NULL, 1, MPI_INT, 0, comm), MPI_ERR_BUFFER, "buffer");
  CHECK_ERROR(MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, comm), MPI_ERR_BUFFER, "buffer");
  CHECK_ERROR(MPI_Allreduce(&word, NULL, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER, "recvbuf");
  CHECK_ERROR(MPI_Allreduce(NULL, &word, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER, "sendbuf");
  CHECK_ERROR(MPI_Allreduce(&word, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER, "recvbuf");
  CHECK_ERROR(MPI_Allreduce(&word, &word, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER, "MPI_IN_PLACE");
  CHECK_ERROR(MPI_Scan(&word, &word, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER, "same memory");
  CHECK_ERROR(MPI_Exscan(&word, &word, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER, "same memory");
  CHECK_ERROR(MPI_Allgather(&all[rank], 1, MPI_INT, all, 1, MPI_INT, comm), MPI_ERR_BUFFER, "same memory");
  CHECK_ERROR(MPI_Alltoall(all, 1, MPI_INT, all, 1, MPI_INT, comm), MPI_ERR_BUFFER, "same memory");
  CHECK_ERROR(MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, all, 1, MPI_INT, (rank + 1) % size, comm),
              size > 1 ? MPI_ERR_BUFFER : MPI_SUCCESS, "");
  CHECK_ERROR(MPI_Gather(&all[rank], 1, MPI_INT, all, 1, MPI_INT, rank, comm), MPI_ERR_BUFFER, "same memory");
  int counts[16], places[16];
  MPI_Datatype types[16];
  for (int i = 0; i < 16; ++i)
    counts[i] = 1, places[i] = i, types[i] = MPI_INT;
  CHECK_ERROR(MPI_Gatherv(&all[rank], 1, MPI_INT, all, counts, places, MPI_INT, rank, comm), MPI_ERR_BUFFER,
              "same memory");
  CHECK_ERROR(MPI_Scatterv(all, counts, places, MPI_INT, &all[rank], 1, MPI_INT, rank, comm), MPI_ERR_BUFFER,
              "same memory");
  CHECK_ERROR(MPI_Allgatherv(&all[rank], 1, MPI_INT, all, counts, places, MPI_INT, comm), MPI_ERR_BUFFER,
              "same memory");
  CHECK_ERROR(MPI_Alltoallv(all, counts, places, MPI_INT, all, counts, places, MPI_INT, comm), MPI_ERR_BUFFER,
              "same memory");
  CHECK_ERROR(MPI_Alltoallw(all, counts, places, types, all, counts, places, types, comm), MPI_ERR_BUFFER,
              "same memory");
  CHECK_ERROR(MPI_Alltoallv(all, NULL, all, MPI_INT, &all[32], all, all, MPI_INT, comm), MPI_ERR_ARG,
              "sendcounts");
  CHECK_ERROR(MPI_Allgatherv(&word, 1, MPI_INT, all, NULL, all, MPI_INT, comm), MPI_ERR_ARG, "recvcounts");
  CHECK_ERROR(MPI_Reduce_scatter(&word, all, NULL, MPI_INT, MPI_SUM, comm), MPI_ERR_ARG, "recvcounts");
}

static void counts_and_types(MPI_Comm comm) {
  int word = 0, all[64], negative[16];
  MPI_Datatype uncommitted;
  for (int i = 0; i < 16; ++i)
    negative[i] = -1;
  CHECK_ERROR(MPI_Bcast(&word, -1, MPI_INT, 0, comm), MPI_ERR_COUNT, "count");
  CHECK_ERROR(MPI_Allreduce(&word, all, -2, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT, "count");
  CHECK_ERROR(MPI_Allgather(&word, -1, MPI_INT, all, 1, MPI_INT, comm), MPI_ERR_COUNT, "sendcount");
  CHECK_ERROR(MPI_Allgather(&word, 1, MPI_INT, all, -1, MPI_INT, comm), MPI_ERR_COUNT, "recvcount");
  CHECK_ERROR(MPI_Allgatherv(&word, 1, MPI_INT, all, negative, negative, MPI_INT, comm), MPI_ERR_COUNT,
              "recvcounts");
  CHECK_ERROR(MPI_Alltoallv(all, negative, negative, MPI_INT, &word, negative, negative, MPI_INT, comm),
              MPI_ERR_COUNT, "sendcounts");
  CHECK_ERROR(MPI_Reduce_scatter(all, &word, negative, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT, "recvcounts");
  CHECK_ERROR(MPI_Bcast(&word, 1, MPI_DATATYPE_NULL, 0, comm), MPI_ERR_TYPE, "datatype");
  CHECK_ERROR(MPI_Allgather(&word, 1, MPI_DATATYPE_NULL, all, 1, MPI_INT, comm), MPI_ERR_TYPE, "sendtype");
  MPI_Type_contiguous(2, MPI_INT, &uncommitted);
  CHECK_ERROR(MPI_Bcast(all, 1, uncommitted, 0, comm), MPI_ERR_TYPE, "commit");
  MPI_Type_commit(&uncommitted);
  CHECK_ERROR(MPI_Allreduce(all, &all[8], 1, uncommitted, MPI_SUM, comm), MPI_ERR_OP, "MPI_SUM");
  MPI_Type_free(&uncommitted);
}

static void operations(MPI_Comm comm) {
  double number = 0, result;
  CHECK_ERROR(MPI_Allreduce(&number, &result, 1, MPI_DOUBLE, MPI_OP_NULL, comm), MPI_ERR_OP, "op");
  CHECK_ERROR(MPI_Allreduce(&number, &result, 1, MPI_DOUBLE, MPI_BAND, comm), MPI_ERR_OP, "MPI_BAND");
  CHECK_ERROR(MPI_Reduce(&number, &result, 1, MPI_DOUBLE, MPI_MAXLOC, 0, comm), MPI_ERR_OP, "MPI_MAXLOC");
  CHECK_ERROR(MPI_Scan(&number, &result, 1, MPI_DOUBLE, MPI_REPLACE, comm), MPI_ERR_OP, "MPI_REPLACE");
  CHECK_ERROR(MPI_Exscan(&number, &result, 1, MPI_PACKED, MPI_SUM, comm), MPI_ERR_OP, "MPI_SUM");
}

/* Nothing goes to nobody. */
static void nothing(MPI_Comm comm) {
  CHECK_MPI(MPI_Bcast(NULL, 0, MPI_INT, 0, comm));
  CHECK_MPI(MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, comm));
  CHECK_MPI(MPI_Allgather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, comm));
  CHECK_MPI(MPI_Alltoall(NULL, 0, MPI_INT, NULL, 0, MPI_INT, comm));
  CHECK_MPI(MPI_Reduce(NULL, NULL, 0, MPI_INT, MPI_SUM, 0, comm));
}

/* Ranks that name each other as the root both wait for the other one: they find out, and go on afterwards. */
static void different_roots(MPI_Comm comm) {
  int word = rank;
  if (size == 1) return;
  CHECK_ERROR(MPI_Bcast(&word, 1, MPI_INT, (rank + 1) % size, comm), MPI_ERR_ROOT, "root");
  CHECK_MPI(MPI_Barrier(comm));
  CHECK_ERROR(MPI_Scatter(&word, 1, MPI_INT, &word, 1, MPI_INT, (rank + 1) % size, comm), MPI_ERR_ROOT,
              "root");
  CHECK_MPI(MPI_Barrier(comm));
}

/* So do ranks with different counts. */
static void different_counts(MPI_Comm comm) {
  int mine[4] = {0}, sums[4];
  if (size == 1) return;
  CHECK_ERROR(MPI_Allreduce(mine, sums, rank == 0 ? 2 : 3, MPI_INT, MPI_SUM, comm),
              rank == 0 ? MPI_ERR_TRUNCATE : MPI_ERR_OTHER, "do not match");
  CHECK_MPI(MPI_Barrier(comm));
}

/* Rank 0 is in another collective than the others, and each would wait for the other: all find out, and go
 * on. With lengths that only the two ends of a message know, as with others. */
enum { few = 2, longest = 100000 };
static int mine[longest * 3], theirs[longest * 3];
static void different_calls(MPI_Comm comm, int count) {
  const char* const why = "in another collective";
  int counts[3] = {count, count, count}, little[3] = {few, few, few}, starts[3] = {0, longest, 2 * longest},
      bytes[3];
  const MPI_Datatype types[3] = {MPI_INT, MPI_INT, MPI_INT};
  if (size == 1) return;
  for (int i = 0; i < 3; ++i)
    bytes[i] = starts[i] * (int)sizeof(int);
  if (rank == 0)
    CHECK_ERROR(MPI_Gatherv(mine, count, MPI_INT, theirs, counts, starts, MPI_INT, 0, comm), MPI_ERR_OTHER,
                why);
  else
    CHECK_ERROR(MPI_Allgatherv(mine, few, MPI_INT, theirs, little, starts, MPI_INT, comm), MPI_ERR_OTHER,
                why);
  CHECK_MPI(MPI_Barrier(comm));
  if (rank == 0)
    CHECK_ERROR(MPI_Alltoallv(mine, counts, starts, MPI_INT, theirs, counts, starts, MPI_INT, comm),
                MPI_ERR_OTHER, "rank 1 is in another collective: alltoall, here it is alltoallv");
  else
    CHECK_ERROR(MPI_Alltoall(mine, few, MPI_INT, theirs, few, MPI_INT, comm), MPI_ERR_OTHER, why);
  CHECK_MPI(MPI_Barrier(comm));
  if (rank == 0)
    CHECK_ERROR(MPI_Alltoallw(mine, counts, bytes, types, theirs, counts, bytes, types, comm), MPI_ERR_OTHER,
                why);
  else
    CHECK_ERROR(MPI_Gatherv(mine, count, MPI_INT, theirs, counts, starts, MPI_INT, rank, comm), MPI_ERR_OTHER,
                why);
  CHECK_MPI(MPI_Barrier(comm));
  /* The root of a scatter of little is done when it has sent; that of much waits for who takes it. */
  if (rank != 0)
    CHECK_ERROR(MPI_Bcast(theirs, few, MPI_INT, 0, comm), MPI_ERR_OTHER, why);
  else if (count == longest)
    CHECK_ERROR(MPI_Scatterv(mine, counts, starts, MPI_INT, theirs, count, MPI_INT, 0, comm), MPI_ERR_OTHER,
                why);
  else
    CHECK_MPI(MPI_Scatterv(mine, counts, starts, MPI_INT, theirs, count, MPI_INT, 0, comm));
  CHECK_MPI(MPI_Barrier(comm));
  /* Two that name each other as the root. */
  if (size == 2)
    CHECK_ERROR(MPI_Gatherv(mine, count, MPI_INT, theirs, counts, starts, MPI_INT, rank, comm), MPI_ERR_ROOT,
                "root");
  CHECK_MPI(MPI_Barrier(comm));
}

/* Calls that match are no such calls, though ranks pass different lengths, and none at all. */
static void matching_calls(MPI_Comm comm) {
  int counts[3] = {0, 1, longest}, starts[3] = {0, longest, 2 * longest}, all[3], outs[3];
  for (int i = 0; i < 3; ++i) {
    all[i] = counts[rank];
    outs[i] = 0;
  }
  for (int i = 0; i < longest; ++i)
    mine[i] = rank + 1;
  for (int root = 0; root < size; ++root) {
    theirs[starts[size - 1]] = -1;
    CHECK_MPI(MPI_Gatherv(mine, counts[rank], MPI_INT, theirs, counts, starts, MPI_INT, root, comm));
    if (rank == root && size > 1) CHECK_EQUAL(theirs[starts[size - 1]], size);
  }
  CHECK_MPI(MPI_Alltoallv(mine, all, outs, MPI_INT, theirs, counts, starts, MPI_INT, comm));
  if (size > 1) CHECK_EQUAL(theirs[starts[1]], 2);
  CHECK_MPI(MPI_Barrier(comm));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  CHECK_MPI(MPI_Barrier(comm));
  roots(comm);
  buffers(comm);
  counts_and_types(comm);
  operations(comm);
  nothing(comm);
  different_roots(comm);
  different_counts(comm);
  different_calls(comm, few);
  different_calls(comm, longest);
  matching_calls(comm);
  CHECK_MPI(MPI_Barrier(comm));
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
