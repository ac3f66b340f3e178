// MPI 5.0, section 8.7: the collectives among neighbours, nonblocking.

#include "abi/coll/neighbor.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Ineighbor_allgather)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return neighbor_allgather(Nonblocking{"MPI_Ineighbor_allgather", request}, sendbuf, sendcount, sendtype,
                            recvbuf, recvcount, recvtype, comm);
}
ISTHMUS_ENTRY(int, Ineighbor_allgather_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return neighbor_allgather(Nonblocking{"MPI_Ineighbor_allgather_c", request}, sendbuf, sendcount, sendtype,
                            recvbuf, recvcount, recvtype, comm);
}

ISTHMUS_ENTRY(int, Ineighbor_allgatherv)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
 const int displs[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return neighbor_allgatherv(Nonblocking{"MPI_Ineighbor_allgatherv", request}, sendbuf, sendcount, sendtype,
                             recvbuf, Lists{recvcounts, displs}, recvtype, comm);
}
ISTHMUS_ENTRY(int, Ineighbor_allgatherv_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
 const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return neighbor_allgatherv(Nonblocking{"MPI_Ineighbor_allgatherv_c", request}, sendbuf, sendcount, sendtype,
                             recvbuf, Lists{recvcounts, displs}, recvtype, comm);
}

ISTHMUS_ENTRY(int, Ineighbor_alltoall)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return neighbor_alltoall(Nonblocking{"MPI_Ineighbor_alltoall", request}, sendbuf, sendcount, sendtype,
                           recvbuf, recvcount, recvtype, comm);
}
ISTHMUS_ENTRY(int, Ineighbor_alltoall_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return neighbor_alltoall(Nonblocking{"MPI_Ineighbor_alltoall_c", request}, sendbuf, sendcount, sendtype,
                           recvbuf, recvcount, recvtype, comm);
}

ISTHMUS_ENTRY(int, Ineighbor_alltoallv)
(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype, void* recvbuf,
 const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return neighbor_alltoallv(Nonblocking{"MPI_Ineighbor_alltoallv", request}, sendbuf,
                            Lists{sendcounts, sdispls}, sendtype, recvbuf, Lists{recvcounts, rdispls},
                            recvtype, comm);
}
ISTHMUS_ENTRY(int, Ineighbor_alltoallv_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], MPI_Datatype sendtype,
 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
 MPI_Request* request) {
  return neighbor_alltoallv(Nonblocking{"MPI_Ineighbor_alltoallv_c", request}, sendbuf,
                            Lists{sendcounts, sdispls}, sendtype, recvbuf, Lists{recvcounts, rdispls},
                            recvtype, comm);
}

ISTHMUS_ENTRY(int, Ineighbor_alltoallw)
(const void* sendbuf, const int sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
 void* recvbuf, const int recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
 MPI_Comm comm, MPI_Request* request) {
  return neighbor_alltoallw(Nonblocking{"MPI_Ineighbor_alltoallw", request}, sendbuf,
                            Lists{sendcounts, sdispls}, sendtypes, recvbuf, Lists{recvcounts, rdispls},
                            recvtypes, comm);
}
ISTHMUS_ENTRY(int, Ineighbor_alltoallw_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
 MPI_Comm comm, MPI_Request* request) {
  return neighbor_alltoallw(Nonblocking{"MPI_Ineighbor_alltoallw_c", request}, sendbuf,
                            Lists{sendcounts, sdispls}, sendtypes, recvbuf, Lists{recvcounts, rdispls},
                            recvtypes, comm);
}

}  // namespace isthmus::abi
