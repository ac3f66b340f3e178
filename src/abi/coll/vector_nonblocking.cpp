// MPI 5.0, section 6.12: the collectives with a count, and mostly a place, for each rank, nonblocking.

#include "abi/coll/vector.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Igatherv)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
 const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request* request) {
  return gatherv(Nonblocking{"MPI_Igatherv", request}, sendbuf, sendcount, sendtype, recvbuf,
                 Lists{recvcounts, displs}, recvtype, root, comm);
}
ISTHMUS_ENTRY(int, Igatherv_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
 const MPI_Aint displs[], MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request* request) {
  return gatherv(Nonblocking{"MPI_Igatherv_c", request}, sendbuf, sendcount, sendtype, recvbuf,
                 Lists{recvcounts, displs}, recvtype, root, comm);
}

ISTHMUS_ENTRY(int, Iscatterv)
(const void* sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype, void* recvbuf,
 int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request* request) {
  return scatterv(Nonblocking{"MPI_Iscatterv", request}, sendbuf, Lists{sendcounts, displs}, sendtype,
                  recvbuf, recvcount, recvtype, root, comm);
}
ISTHMUS_ENTRY(int, Iscatterv_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint displs[], MPI_Datatype sendtype,
 void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request* request) {
  return scatterv(Nonblocking{"MPI_Iscatterv_c", request}, sendbuf, Lists{sendcounts, displs}, sendtype,
                  recvbuf, recvcount, recvtype, root, comm);
}

ISTHMUS_ENTRY(int, Iallgatherv)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
 const int displs[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return allgatherv(Nonblocking{"MPI_Iallgatherv", request}, sendbuf, sendcount, sendtype, recvbuf,
                    Lists{recvcounts, displs}, recvtype, comm);
}
ISTHMUS_ENTRY(int, Iallgatherv_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
 const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return allgatherv(Nonblocking{"MPI_Iallgatherv_c", request}, sendbuf, sendcount, sendtype, recvbuf,
                    Lists{recvcounts, displs}, recvtype, comm);
}

ISTHMUS_ENTRY(int, Ialltoallv)
(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype, void* recvbuf,
 const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return alltoallv(Nonblocking{"MPI_Ialltoallv", request}, sendbuf, Lists{sendcounts, sdispls}, sendtype,
                   recvbuf, Lists{recvcounts, rdispls}, recvtype, comm);
}
ISTHMUS_ENTRY(int, Ialltoallv_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], MPI_Datatype sendtype,
 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
 MPI_Request* request) {
  return alltoallv(Nonblocking{"MPI_Ialltoallv_c", request}, sendbuf, Lists{sendcounts, sdispls}, sendtype,
                   recvbuf, Lists{recvcounts, rdispls}, recvtype, comm);
}

ISTHMUS_ENTRY(int, Ialltoallw)
(const void* sendbuf, const int sendcounts[], const int sdispls[], const MPI_Datatype sendtypes[],
 void* recvbuf, const int recvcounts[], const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
 MPI_Request* request) {
  return alltoallw(Nonblocking{"MPI_Ialltoallw", request}, sendbuf, Lists{sendcounts, sdispls}, sendtypes,
                   recvbuf, Lists{recvcounts, rdispls}, recvtypes, comm);
}
ISTHMUS_ENTRY(int, Ialltoallw_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
 MPI_Comm comm, MPI_Request* request) {
  return alltoallw(Nonblocking{"MPI_Ialltoallw_c", request}, sendbuf, Lists{sendcounts, sdispls}, sendtypes,
                   recvbuf, Lists{recvcounts, rdispls}, recvtypes, comm);
}

}  // namespace isthmus::abi
