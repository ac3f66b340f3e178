// MPI 5.0, sections 6.9 to 6.11: the collectives that reduce.

#include "abi/coll/reduce.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Reduce)
(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm) {
  return reduce(Blocking{"MPI_Reduce"}, sendbuf, recvbuf, count, datatype, op, root, comm);
}
ISTHMUS_ENTRY(int, Reduce_c)
(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op, int root,
 MPI_Comm comm) {
  return reduce(Blocking{"MPI_Reduce_c"}, sendbuf, recvbuf, count, datatype, op, root, comm);
}

ISTHMUS_ENTRY(int, Allreduce)
(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return allreduce(Blocking{"MPI_Allreduce"}, sendbuf, recvbuf, count, datatype, op, comm);
}
ISTHMUS_ENTRY(int, Allreduce_c)
(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return allreduce(Blocking{"MPI_Allreduce_c"}, sendbuf, recvbuf, count, datatype, op, comm);
}

ISTHMUS_ENTRY(int, Reduce_scatter_block)
(const void* sendbuf, void* recvbuf, int recvcount, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return reduce_scatter_block(Blocking{"MPI_Reduce_scatter_block"}, sendbuf, recvbuf, recvcount, datatype, op,
                              comm);
}
ISTHMUS_ENTRY(int, Reduce_scatter_block_c)
(const void* sendbuf, void* recvbuf, MPI_Count recvcount, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return reduce_scatter_block(Blocking{"MPI_Reduce_scatter_block_c"}, sendbuf, recvbuf, recvcount, datatype,
                              op, comm);
}

ISTHMUS_ENTRY(int, Reduce_scatter)
(const void* sendbuf, void* recvbuf, const int recvcounts[], MPI_Datatype datatype, MPI_Op op,
 MPI_Comm comm) {
  return reduce_scatter(Blocking{"MPI_Reduce_scatter"}, sendbuf, recvbuf, recvcounts, datatype, op, comm);
}
ISTHMUS_ENTRY(int, Reduce_scatter_c)
(const void* sendbuf, void* recvbuf, const MPI_Count recvcounts[], MPI_Datatype datatype, MPI_Op op,
 MPI_Comm comm) {
  return reduce_scatter(Blocking{"MPI_Reduce_scatter_c"}, sendbuf, recvbuf, recvcounts, datatype, op, comm);
}

ISTHMUS_ENTRY(int, Scan)
(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return scan(Blocking{"MPI_Scan"}, sendbuf, recvbuf, count, datatype, op, comm);
}
ISTHMUS_ENTRY(int, Scan_c)
(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return scan(Blocking{"MPI_Scan_c"}, sendbuf, recvbuf, count, datatype, op, comm);
}

ISTHMUS_ENTRY(int, Exscan)
(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return exscan(Blocking{"MPI_Exscan"}, sendbuf, recvbuf, count, datatype, op, comm);
}
ISTHMUS_ENTRY(int, Exscan_c)
(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return exscan(Blocking{"MPI_Exscan_c"}, sendbuf, recvbuf, count, datatype, op, comm);
}

}  // namespace isthmus::abi
