/* Spoils the last byte of every message that is received: what a broken library would deliver. */
#include <mpi.h>
int MPI_Recv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  const int result = PMPI_Recv(data, count, type, source, tag, comm, status);
  if (type == MPI_BYTE && count > 0) ((unsigned char*)data)[count - 1] ^= 1;
  return result;
}
