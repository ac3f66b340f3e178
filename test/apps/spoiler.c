/* Spoils one number of what rank 0 receives in each alltoallv from its third on: what a broken library would deliver. */
#include <mpi.h>
int MPI_Alltoallv(const void* sent, const int* send_counts, const int* send_offsets, MPI_Datatype send_type, void* received,
                  const int* counts, const int* offsets, MPI_Datatype type, MPI_Comm comm) {
  static int calls;
  const int result = PMPI_Alltoallv(sent, send_counts, send_offsets, send_type, received, counts, offsets, type, comm);
  int rank;
  MPI_Comm_rank(comm, &rank);
  if (rank == 0 && ++calls >= 3) ((unsigned char*)received)[SPOILED] ^= 1;
  return result;
}
