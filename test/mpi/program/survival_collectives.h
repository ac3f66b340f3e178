/* The collectives that a rank dies in, by name, blocking and not, for program_survival.c. */
#ifndef ISTHMUS_TEST_SURVIVAL_COLLECTIVES_H
#define ISTHMUS_TEST_SURVIVAL_COLLECTIVES_H

#include "../check.h"

struct job {
  int victim, size;
  void *in, *out;
};

static int run_collective(const char* name, int bytes, struct job job) {
  const int n = bytes / (int)sizeof(double);
  double* in = (double*)job.in;
  double* out = (double*)job.out;
  if (!strcmp(name, "barrier")) return MPI_Barrier(MPI_COMM_WORLD);
  if (!strcmp(name, "bcast"))
    return MPI_Bcast(in, n, MPI_DOUBLE, (job.victim + 1) % job.size, MPI_COMM_WORLD);
  if (!strcmp(name, "bcast-victim")) return MPI_Bcast(in, n, MPI_DOUBLE, job.victim, MPI_COMM_WORLD);
  if (!strcmp(name, "reduce"))
    return MPI_Reduce(in, out, n, MPI_DOUBLE, MPI_SUM, (job.victim + 1) % job.size, MPI_COMM_WORLD);
  if (!strcmp(name, "allreduce")) return MPI_Allreduce(in, out, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (!strcmp(name, "gather"))
    return MPI_Gather(in, n / job.size, MPI_DOUBLE, out, n / job.size, MPI_DOUBLE,
                      (job.victim + 1) % job.size, MPI_COMM_WORLD);
  if (!strcmp(name, "scatter"))
    return MPI_Scatter(in, n / job.size, MPI_DOUBLE, out, n / job.size, MPI_DOUBLE,
                       (job.victim + 1) % job.size, MPI_COMM_WORLD);
  if (!strcmp(name, "allgather"))
    return MPI_Allgather(in, n / job.size, MPI_DOUBLE, out, n / job.size, MPI_DOUBLE, MPI_COMM_WORLD);
  if (!strcmp(name, "alltoall"))
    return MPI_Alltoall(in, n / job.size, MPI_DOUBLE, out, n / job.size, MPI_DOUBLE, MPI_COMM_WORLD);
  if (!strcmp(name, "scan")) return MPI_Scan(in, out, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (!strcmp(name, "reduce_scatter"))
    return MPI_Reduce_scatter_block(in, out, n / job.size, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  CHECK(!"a collective that is known");
  return MPI_SUCCESS;
}

static int begin_collective(const char* name, int bytes, struct job job, MPI_Request* request) {
  const int n = bytes / (int)sizeof(double);
  const int root = (job.victim + 1) % job.size;
  double* in = (double*)job.in;
  double* out = (double*)job.out;
  const MPI_Comm comm = MPI_COMM_WORLD;
  if (!strcmp(name, "barrier")) return MPI_Ibarrier(comm, request);
  if (!strcmp(name, "bcast")) return MPI_Ibcast(in, n, MPI_DOUBLE, root, comm, request);
  if (!strcmp(name, "bcast-victim")) return MPI_Ibcast(in, n, MPI_DOUBLE, job.victim, comm, request);
  if (!strcmp(name, "reduce")) return MPI_Ireduce(in, out, n, MPI_DOUBLE, MPI_SUM, root, comm, request);
  if (!strcmp(name, "allreduce")) return MPI_Iallreduce(in, out, n, MPI_DOUBLE, MPI_SUM, comm, request);
  if (!strcmp(name, "gather"))
    return MPI_Igather(in, n / job.size, MPI_DOUBLE, out, n / job.size, MPI_DOUBLE, root, comm, request);
  if (!strcmp(name, "scatter"))
    return MPI_Iscatter(in, n / job.size, MPI_DOUBLE, out, n / job.size, MPI_DOUBLE, root, comm, request);
  if (!strcmp(name, "allgather"))
    return MPI_Iallgather(in, n / job.size, MPI_DOUBLE, out, n / job.size, MPI_DOUBLE, comm, request);
  if (!strcmp(name, "alltoall"))
    return MPI_Ialltoall(in, n / job.size, MPI_DOUBLE, out, n / job.size, MPI_DOUBLE, comm, request);
  if (!strcmp(name, "scan")) return MPI_Iscan(in, out, n, MPI_DOUBLE, MPI_SUM, comm, request);
  if (!strcmp(name, "reduce_scatter"))
    return MPI_Ireduce_scatter_block(in, out, n / job.size, MPI_DOUBLE, MPI_SUM, comm, request);
  CHECK(!"a collective that is known");
  return MPI_SUCCESS;
}

#endif
