/* Spoils a byte, SPOILED, of what rank 0 receives in each alltoallv from its third on: what a broken library
 * would deliver. */
#include <mpi.h>

#ifndef SPOILED
#define SPOILED 0
#endif

int MPI_Alltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                  void* recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                  MPI_Comm comm) {
  static int calls;
  const int result =
      PMPI_Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm);
  int rank;
  MPI_Comm_rank(comm, &rank);
  if (rank == 0 && ++calls >= 3) ((unsigned char*)recvbuf)[SPOILED] ^= 1;
  return result;
}
