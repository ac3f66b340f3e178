// MPI 5.0, section 6.13: the collectives that reduce, persistent.

#include "abi/coll/reduce.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Reduce_init)
(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm,
 MPI_Info info, MPI_Request* request) {
  return reduce(Persistent{"MPI_Reduce_init", info, request}, sendbuf, recvbuf, count, datatype, op, root,
                comm);
}
ISTHMUS_ENTRY(int, Reduce_init_c)
(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op, int root,
 MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return reduce(Persistent{"MPI_Reduce_init_c", info, request}, sendbuf, recvbuf, count, datatype, op, root,
                comm);
}

ISTHMUS_ENTRY(int, Allreduce_init)
(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Info info, MPI_Request* request) {
  return allreduce(Persistent{"MPI_Allreduce_init", info, request}, sendbuf, recvbuf, count, datatype, op,
                   comm);
}
ISTHMUS_ENTRY(int, Allreduce_init_c)
(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Info info, MPI_Request* request) {
  return allreduce(Persistent{"MPI_Allreduce_init_c", info, request}, sendbuf, recvbuf, count, datatype, op,
                   comm);
}

ISTHMUS_ENTRY(int, Reduce_scatter_block_init)
(const void* sendbuf, void* recvbuf, int recvcount, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Info info, MPI_Request* request) {
  return reduce_scatter_block(Persistent{"MPI_Reduce_scatter_block_init", info, request}, sendbuf, recvbuf,
                              recvcount, datatype, op, comm);
}
ISTHMUS_ENTRY(int, Reduce_scatter_block_init_c)
(const void* sendbuf, void* recvbuf, MPI_Count recvcount, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Info info, MPI_Request* request) {
  return reduce_scatter_block(Persistent{"MPI_Reduce_scatter_block_init_c", info, request}, sendbuf, recvbuf,
                              recvcount, datatype, op, comm);
}

ISTHMUS_ENTRY(int, Reduce_scatter_init)
(const void* sendbuf, void* recvbuf, const int recvcounts[], MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Info info, MPI_Request* request) {
  return reduce_scatter(Persistent{"MPI_Reduce_scatter_init", info, request}, sendbuf, recvbuf, recvcounts,
                        datatype, op, comm);
}
ISTHMUS_ENTRY(int, Reduce_scatter_init_c)
(const void* sendbuf, void* recvbuf, const MPI_Count recvcounts[], MPI_Datatype datatype, MPI_Op op,
 MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return reduce_scatter(Persistent{"MPI_Reduce_scatter_init_c", info, request}, sendbuf, recvbuf, recvcounts,
                        datatype, op, comm);
}

ISTHMUS_ENTRY(int, Scan_init)
(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Info info, MPI_Request* request) {
  return scan(Persistent{"MPI_Scan_init", info, request}, sendbuf, recvbuf, count, datatype, op, comm);
}
ISTHMUS_ENTRY(int, Scan_init_c)
(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Info info, MPI_Request* request) {
  return scan(Persistent{"MPI_Scan_init_c", info, request}, sendbuf, recvbuf, count, datatype, op, comm);
}

ISTHMUS_ENTRY(int, Exscan_init)
(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Info info, MPI_Request* request) {
  return exscan(Persistent{"MPI_Exscan_init", info, request}, sendbuf, recvbuf, count, datatype, op, comm);
}
ISTHMUS_ENTRY(int, Exscan_init_c)
(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Info info, MPI_Request* request) {
  return exscan(Persistent{"MPI_Exscan_init_c", info, request}, sendbuf, recvbuf, count, datatype, op, comm);
}

}  // namespace isthmus::abi
