// MPI 5.0, sections 6.3 to 6.8: barrier and the collectives that move data in equal blocks.

#include "abi/coll/move.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Barrier)
(MPI_Comm comm) {
  return barrier(Blocking{"MPI_Barrier"}, comm);
}

ISTHMUS_ENTRY(int, Bcast)
(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  return bcast(Blocking{"MPI_Bcast"}, buffer, count, datatype, root, comm);
}
ISTHMUS_ENTRY(int, Bcast_c)
(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  return bcast(Blocking{"MPI_Bcast_c"}, buffer, count, datatype, root, comm);
}

ISTHMUS_ENTRY(int, Gather)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return gather(Blocking{"MPI_Gather"}, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root,
                comm);
}
ISTHMUS_ENTRY(int, Gather_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return gather(Blocking{"MPI_Gather_c"}, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root,
                comm);
}

ISTHMUS_ENTRY(int, Scatter)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return scatter(Blocking{"MPI_Scatter"}, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root,
                 comm);
}
ISTHMUS_ENTRY(int, Scatter_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return scatter(Blocking{"MPI_Scatter_c"}, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root,
                 comm);
}

ISTHMUS_ENTRY(int, Allgather)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm) {
  return allgather(Blocking{"MPI_Allgather"}, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                   comm);
}
ISTHMUS_ENTRY(int, Allgather_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, MPI_Comm comm) {
  return allgather(Blocking{"MPI_Allgather_c"}, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                   comm);
}

ISTHMUS_ENTRY(int, Alltoall)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm) {
  return alltoall(Blocking{"MPI_Alltoall"}, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}
ISTHMUS_ENTRY(int, Alltoall_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, MPI_Comm comm) {
  return alltoall(Blocking{"MPI_Alltoall_c"}, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                  comm);
}

}  // namespace isthmus::abi
