// MPI 5.0, section 6.12: the collectives that reduce, nonblocking.

#include "abi/coll/reduce.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Ireduce)
(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm,
 MPI_Request* request) {
  return reduce(Nonblocking{"MPI_Ireduce", request}, sendbuf, recvbuf, count, datatype, op, root, comm);
}
ISTHMUS_ENTRY(int, Ireduce_c)
(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op, int root,
 MPI_Comm comm, MPI_Request* request) {
  return reduce(Nonblocking{"MPI_Ireduce_c", request}, sendbuf, recvbuf, count, datatype, op, root, comm);
}

ISTHMUS_ENTRY(int, Iallreduce)
(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Request* request) {
  return allreduce(Nonblocking{"MPI_Iallreduce", request}, sendbuf, recvbuf, count, datatype, op, comm);
}
ISTHMUS_ENTRY(int, Iallreduce_c)
(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Request* request) {
  return allreduce(Nonblocking{"MPI_Iallreduce_c", request}, sendbuf, recvbuf, count, datatype, op, comm);
}

ISTHMUS_ENTRY(int, Ireduce_scatter_block)
(const void* sendbuf, void* recvbuf, int recvcount, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Request* request) {
  return reduce_scatter_block(Nonblocking{"MPI_Ireduce_scatter_block", request}, sendbuf, recvbuf, recvcount,
                              datatype, op, comm);
}
ISTHMUS_ENTRY(int, Ireduce_scatter_block_c)
(const void* sendbuf, void* recvbuf, MPI_Count recvcount, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Request* request) {
  return reduce_scatter_block(Nonblocking{"MPI_Ireduce_scatter_block_c", request}, sendbuf, recvbuf,
                              recvcount, datatype, op, comm);
}

ISTHMUS_ENTRY(int, Ireduce_scatter)
(const void* sendbuf, void* recvbuf, const int recvcounts[], MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Request* request) {
  return reduce_scatter(Nonblocking{"MPI_Ireduce_scatter", request}, sendbuf, recvbuf, recvcounts, datatype,
                        op, comm);
}
ISTHMUS_ENTRY(int, Ireduce_scatter_c)
(const void* sendbuf, void* recvbuf, const MPI_Count recvcounts[], MPI_Datatype datatype, MPI_Op op,
 MPI_Comm comm, MPI_Request* request) {
  return reduce_scatter(Nonblocking{"MPI_Ireduce_scatter_c", request}, sendbuf, recvbuf, recvcounts, datatype,
                        op, comm);
}

ISTHMUS_ENTRY(int, Iscan)
(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Request* request) {
  return scan(Nonblocking{"MPI_Iscan", request}, sendbuf, recvbuf, count, datatype, op, comm);
}
ISTHMUS_ENTRY(int, Iscan_c)
(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Request* request) {
  return scan(Nonblocking{"MPI_Iscan_c", request}, sendbuf, recvbuf, count, datatype, op, comm);
}

ISTHMUS_ENTRY(int, Iexscan)
(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Request* request) {
  return exscan(Nonblocking{"MPI_Iexscan", request}, sendbuf, recvbuf, count, datatype, op, comm);
}
ISTHMUS_ENTRY(int, Iexscan_c)
(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
 MPI_Request* request) {
  return exscan(Nonblocking{"MPI_Iexscan_c", request}, sendbuf, recvbuf, count, datatype, op, comm);
}

}  // namespace isthmus::abi
