// MPI 5.0, section 6.13: barrier and the collectives that move data in equal blocks, persistent.

#include "abi/coll/move.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Barrier_init)
(MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return barrier(Persistent{"MPI_Barrier_init", info, request}, comm);
}

ISTHMUS_ENTRY(int, Bcast_init)
(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm, MPI_Info info,
 MPI_Request* request) {
  return bcast(Persistent{"MPI_Bcast_init", info, request}, buffer, count, datatype, root, comm);
}
ISTHMUS_ENTRY(int, Bcast_init_c)
(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm, MPI_Info info,
 MPI_Request* request) {
  return bcast(Persistent{"MPI_Bcast_init_c", info, request}, buffer, count, datatype, root, comm);
}

ISTHMUS_ENTRY(int, Gather_init)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return gather(Persistent{"MPI_Gather_init", info, request}, sendbuf, sendcount, sendtype, recvbuf,
                recvcount, recvtype, root, comm);
}
ISTHMUS_ENTRY(int, Gather_init_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return gather(Persistent{"MPI_Gather_init_c", info, request}, sendbuf, sendcount, sendtype, recvbuf,
                recvcount, recvtype, root, comm);
}

ISTHMUS_ENTRY(int, Scatter_init)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return scatter(Persistent{"MPI_Scatter_init", info, request}, sendbuf, sendcount, sendtype, recvbuf,
                 recvcount, recvtype, root, comm);
}
ISTHMUS_ENTRY(int, Scatter_init_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return scatter(Persistent{"MPI_Scatter_init_c", info, request}, sendbuf, sendcount, sendtype, recvbuf,
                 recvcount, recvtype, root, comm);
}

ISTHMUS_ENTRY(int, Allgather_init)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return allgather(Persistent{"MPI_Allgather_init", info, request}, sendbuf, sendcount, sendtype, recvbuf,
                   recvcount, recvtype, comm);
}
ISTHMUS_ENTRY(int, Allgather_init_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return allgather(Persistent{"MPI_Allgather_init_c", info, request}, sendbuf, sendcount, sendtype, recvbuf,
                   recvcount, recvtype, comm);
}

ISTHMUS_ENTRY(int, Alltoall_init)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return alltoall(Persistent{"MPI_Alltoall_init", info, request}, sendbuf, sendcount, sendtype, recvbuf,
                  recvcount, recvtype, comm);
}
ISTHMUS_ENTRY(int, Alltoall_init_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return alltoall(Persistent{"MPI_Alltoall_init_c", info, request}, sendbuf, sendcount, sendtype, recvbuf,
                  recvcount, recvtype, comm);
}

}  // namespace isthmus::abi
