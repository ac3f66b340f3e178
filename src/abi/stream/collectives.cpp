// Collectives in the order of a stream, by the convention of MPICH's MPIX_Allreduce_enqueue.

#include "abi/coll/move.hpp"
#include "abi/coll/reduce.hpp"
#include "abi/stream/enqueue.hpp"

namespace isthmus::abi {

ISTHMUS_EXTENSION(int, Barrier_enqueue)(MPI_Comm comm) {
  return barrier(Enqueueing{"MPIX_Barrier_enqueue"}, comm);
}

ISTHMUS_EXTENSION(int, Bcast_enqueue)
(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  return bcast(Enqueueing{"MPIX_Bcast_enqueue"}, buffer, count, datatype, root, comm);
}

ISTHMUS_EXTENSION(int, Allgather_enqueue)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm) {
  return allgather(Enqueueing{"MPIX_Allgather_enqueue"}, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                   recvtype, comm);
}

ISTHMUS_EXTENSION(int, Alltoall_enqueue)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm) {
  return alltoall(Enqueueing{"MPIX_Alltoall_enqueue"}, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                  recvtype, comm);
}

ISTHMUS_EXTENSION(int, Allreduce_enqueue)
(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return allreduce(Enqueueing{"MPIX_Allreduce_enqueue"}, sendbuf, recvbuf, count, datatype, op, comm);
}

ISTHMUS_EXTENSION(int, Reduce_scatter_enqueue)
(const void* sendbuf, void* recvbuf, const int recvcounts[], MPI_Datatype datatype, MPI_Op op,
 MPI_Comm comm) {
  return reduce_scatter(Enqueueing{"MPIX_Reduce_scatter_enqueue"}, sendbuf, recvbuf, recvcounts, datatype, op,
                        comm);
}

ISTHMUS_EXTENSION(int, Reduce_scatter_block_enqueue)
(const void* sendbuf, void* recvbuf, int recvcount, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return reduce_scatter_block(Enqueueing{"MPIX_Reduce_scatter_block_enqueue"}, sendbuf, recvbuf, recvcount,
                              datatype, op, comm);
}

}  // namespace isthmus::abi
