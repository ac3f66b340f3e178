/* Spoils the last byte of every message that is received: what a broken library would deliver. */
#include <mpi.h>

int MPI_Recv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
             MPI_Status* status) {
  const int result = PMPI_Recv(buf, count, datatype, source, tag, comm, status);
  if (datatype == MPI_BYTE && count > 0) ((unsigned char*)buf)[count - 1] ^= 1;
  return result;
}
