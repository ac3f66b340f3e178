// MPI 5.0, section 8.6: the collectives among neighbours.

#include "abi/coll/neighbor.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Neighbor_allgather)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm) {
  return neighbor_allgather(Blocking{"MPI_Neighbor_allgather"}, sendbuf, sendcount, sendtype, recvbuf,
                            recvcount, recvtype, comm);
}
ISTHMUS_ENTRY(int, Neighbor_allgather_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, MPI_Comm comm) {
  return neighbor_allgather(Blocking{"MPI_Neighbor_allgather_c"}, sendbuf, sendcount, sendtype, recvbuf,
                            recvcount, recvtype, comm);
}

ISTHMUS_ENTRY(int, Neighbor_allgatherv)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
 const int displs[], MPI_Datatype recvtype, MPI_Comm comm) {
  return neighbor_allgatherv(Blocking{"MPI_Neighbor_allgatherv"}, sendbuf, sendcount, sendtype, recvbuf,
                             Lists{recvcounts, displs}, recvtype, comm);
}
ISTHMUS_ENTRY(int, Neighbor_allgatherv_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
 const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm) {
  return neighbor_allgatherv(Blocking{"MPI_Neighbor_allgatherv_c"}, sendbuf, sendcount, sendtype, recvbuf,
                             Lists{recvcounts, displs}, recvtype, comm);
}

ISTHMUS_ENTRY(int, Neighbor_alltoall)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm) {
  return neighbor_alltoall(Blocking{"MPI_Neighbor_alltoall"}, sendbuf, sendcount, sendtype, recvbuf,
                           recvcount, recvtype, comm);
}
ISTHMUS_ENTRY(int, Neighbor_alltoall_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, MPI_Comm comm) {
  return neighbor_alltoall(Blocking{"MPI_Neighbor_alltoall_c"}, sendbuf, sendcount, sendtype, recvbuf,
                           recvcount, recvtype, comm);
}

ISTHMUS_ENTRY(int, Neighbor_alltoallv)
(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype, void* recvbuf,
 const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm) {
  return neighbor_alltoallv(Blocking{"MPI_Neighbor_alltoallv"}, sendbuf, Lists{sendcounts, sdispls}, sendtype,
                            recvbuf, Lists{recvcounts, rdispls}, recvtype, comm);
}
ISTHMUS_ENTRY(int, Neighbor_alltoallv_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], MPI_Datatype sendtype,
 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype,
 MPI_Comm comm) {
  return neighbor_alltoallv(Blocking{"MPI_Neighbor_alltoallv_c"}, sendbuf, Lists{sendcounts, sdispls},
                            sendtype, recvbuf, Lists{recvcounts, rdispls}, recvtype, comm);
}

ISTHMUS_ENTRY(int, Neighbor_alltoallw)
(const void* sendbuf, const int sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
 void* recvbuf, const int recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
 MPI_Comm comm) {
  return neighbor_alltoallw(Blocking{"MPI_Neighbor_alltoallw"}, sendbuf, Lists{sendcounts, sdispls},
                            sendtypes, recvbuf, Lists{recvcounts, rdispls}, recvtypes, comm);
}
ISTHMUS_ENTRY(int, Neighbor_alltoallw_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
 MPI_Comm comm) {
  return neighbor_alltoallw(Blocking{"MPI_Neighbor_alltoallw_c"}, sendbuf, Lists{sendcounts, sdispls},
                            sendtypes, recvbuf, Lists{recvcounts, rdispls}, recvtypes, comm);
}

}  // namespace isthmus::abi
