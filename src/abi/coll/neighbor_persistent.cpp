// MPI 5.0, section 8.8: the collectives among neighbours, persistent.

#include "abi/coll/neighbor.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Neighbor_allgather_init)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return neighbor_allgather(Persistent{"MPI_Neighbor_allgather_init", info, request}, sendbuf, sendcount,
                            sendtype, recvbuf, recvcount, recvtype, comm);
}
ISTHMUS_ENTRY(int, Neighbor_allgather_init_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return neighbor_allgather(Persistent{"MPI_Neighbor_allgather_init_c", info, request}, sendbuf, sendcount,
                            sendtype, recvbuf, recvcount, recvtype, comm);
}

ISTHMUS_ENTRY(int, Neighbor_allgatherv_init)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
 const int displs[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return neighbor_allgatherv(Persistent{"MPI_Neighbor_allgatherv_init", info, request}, sendbuf, sendcount,
                             sendtype, recvbuf, Lists{recvcounts, displs}, recvtype, comm);
}
ISTHMUS_ENTRY(int, Neighbor_allgatherv_init_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
 const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return neighbor_allgatherv(Persistent{"MPI_Neighbor_allgatherv_init_c", info, request}, sendbuf, sendcount,
                             sendtype, recvbuf, Lists{recvcounts, displs}, recvtype, comm);
}

ISTHMUS_ENTRY(int, Neighbor_alltoall_init)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return neighbor_alltoall(Persistent{"MPI_Neighbor_alltoall_init", info, request}, sendbuf, sendcount,
                           sendtype, recvbuf, recvcount, recvtype, comm);
}
ISTHMUS_ENTRY(int, Neighbor_alltoall_init_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return neighbor_alltoall(Persistent{"MPI_Neighbor_alltoall_init_c", info, request}, sendbuf, sendcount,
                           sendtype, recvbuf, recvcount, recvtype, comm);
}

ISTHMUS_ENTRY(int, Neighbor_alltoallv_init)
(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype, void* recvbuf,
 const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
 MPI_Request* request) {
  return neighbor_alltoallv(Persistent{"MPI_Neighbor_alltoallv_init", info, request}, sendbuf,
                            Lists{sendcounts, sdispls}, sendtype, recvbuf, Lists{recvcounts, rdispls},
                            recvtype, comm);
}
ISTHMUS_ENTRY(int, Neighbor_alltoallv_init_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], MPI_Datatype sendtype,
 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
 MPI_Info info, MPI_Request* request) {
  return neighbor_alltoallv(Persistent{"MPI_Neighbor_alltoallv_init_c", info, request}, sendbuf,
                            Lists{sendcounts, sdispls}, sendtype, recvbuf, Lists{recvcounts, rdispls},
                            recvtype, comm);
}

ISTHMUS_ENTRY(int, Neighbor_alltoallw_init)
(const void* sendbuf, const int sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
 void* recvbuf, const int recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
 MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return neighbor_alltoallw(Persistent{"MPI_Neighbor_alltoallw_init", info, request}, sendbuf,
                            Lists{sendcounts, sdispls}, sendtypes, recvbuf, Lists{recvcounts, rdispls},
                            recvtypes, comm);
}
ISTHMUS_ENTRY(int, Neighbor_alltoallw_init_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
 MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return neighbor_alltoallw(Persistent{"MPI_Neighbor_alltoallw_init_c", info, request}, sendbuf,
                            Lists{sendcounts, sdispls}, sendtypes, recvbuf, Lists{recvcounts, rdispls},
                            recvtypes, comm);
}

}  // namespace isthmus::abi
