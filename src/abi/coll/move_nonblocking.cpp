// MPI 5.0, section 6.12: barrier and the collectives that move data in equal blocks, nonblocking.

#include "abi/coll/move.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Ibarrier)
(MPI_Comm comm, MPI_Request* request) {
  return barrier(Nonblocking{"MPI_Ibarrier", request}, comm);
}

ISTHMUS_ENTRY(int, Ibcast)
(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm, MPI_Request* request) {
  return bcast(Nonblocking{"MPI_Ibcast", request}, buffer, count, datatype, root, comm);
}
ISTHMUS_ENTRY(int, Ibcast_c)
(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm, MPI_Request* request) {
  return bcast(Nonblocking{"MPI_Ibcast_c", request}, buffer, count, datatype, root, comm);
}

ISTHMUS_ENTRY(int, Igather)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request* request) {
  return gather(Nonblocking{"MPI_Igather", request}, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                recvtype, root, comm);
}
ISTHMUS_ENTRY(int, Igather_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request* request) {
  return gather(Nonblocking{"MPI_Igather_c", request}, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                recvtype, root, comm);
}

ISTHMUS_ENTRY(int, Iscatter)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request* request) {
  return scatter(Nonblocking{"MPI_Iscatter", request}, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                 recvtype, root, comm);
}
ISTHMUS_ENTRY(int, Iscatter_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request* request) {
  return scatter(Nonblocking{"MPI_Iscatter_c", request}, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                 recvtype, root, comm);
}

ISTHMUS_ENTRY(int, Iallgather)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return allgather(Nonblocking{"MPI_Iallgather", request}, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                   recvtype, comm);
}
ISTHMUS_ENTRY(int, Iallgather_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return allgather(Nonblocking{"MPI_Iallgather_c", request}, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                   recvtype, comm);
}

ISTHMUS_ENTRY(int, Ialltoall)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return alltoall(Nonblocking{"MPI_Ialltoall", request}, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                  recvtype, comm);
}
ISTHMUS_ENTRY(int, Ialltoall_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return alltoall(Nonblocking{"MPI_Ialltoall_c", request}, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                  recvtype, comm);
}

}  // namespace isthmus::abi
