// MPI 5.0, sections 6.5 to 6.8: the collectives with a count, and mostly a place, for each rank.

#include "abi/coll/vector.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Gatherv)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
 const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return gatherv(Blocking{"MPI_Gatherv"}, sendbuf, sendcount, sendtype, recvbuf, Lists{recvcounts, displs},
                 recvtype, root, comm);
}
ISTHMUS_ENTRY(int, Gatherv_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
 const MPI_Aint displs[], MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return gatherv(Blocking{"MPI_Gatherv_c"}, sendbuf, sendcount, sendtype, recvbuf, Lists{recvcounts, displs},
                 recvtype, root, comm);
}

ISTHMUS_ENTRY(int, Scatterv)
(const void* sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype, void* recvbuf,
 int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return scatterv(Blocking{"MPI_Scatterv"}, sendbuf, Lists{sendcounts, displs}, sendtype, recvbuf, recvcount,
                  recvtype, root, comm);
}
ISTHMUS_ENTRY(int, Scatterv_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint displs[], MPI_Datatype sendtype,
 void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return scatterv(Blocking{"MPI_Scatterv_c"}, sendbuf, Lists{sendcounts, displs}, sendtype, recvbuf,
                  recvcount, recvtype, root, comm);
}

ISTHMUS_ENTRY(int, Allgatherv)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
 const int displs[], MPI_Datatype recvtype, MPI_Comm comm) {
  return allgatherv(Blocking{"MPI_Allgatherv"}, sendbuf, sendcount, sendtype, recvbuf,
                    Lists{recvcounts, displs}, recvtype, comm);
}
ISTHMUS_ENTRY(int, Allgatherv_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
 const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm) {
  return allgatherv(Blocking{"MPI_Allgatherv_c"}, sendbuf, sendcount, sendtype, recvbuf,
                    Lists{recvcounts, displs}, recvtype, comm);
}

ISTHMUS_ENTRY(int, Alltoallv)
(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype, void* recvbuf,
 const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm) {
  return alltoallv(Blocking{"MPI_Alltoallv"}, sendbuf, Lists{sendcounts, sdispls}, sendtype, recvbuf,
                   Lists{recvcounts, rdispls}, recvtype, comm);
}
ISTHMUS_ENTRY(int, Alltoallv_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], MPI_Datatype sendtype,
 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype,
 MPI_Comm comm) {
  return alltoallv(Blocking{"MPI_Alltoallv_c"}, sendbuf, Lists{sendcounts, sdispls}, sendtype, recvbuf,
                   Lists{recvcounts, rdispls}, recvtype, comm);
}

ISTHMUS_ENTRY(int, Alltoallw)
(const void* sendbuf, const int sendcounts[], const int sdispls[], const MPI_Datatype sendtypes[],
 void* recvbuf, const int recvcounts[], const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm) {
  return alltoallw(Blocking{"MPI_Alltoallw"}, sendbuf, Lists{sendcounts, sdispls}, sendtypes, recvbuf,
                   Lists{recvcounts, rdispls}, recvtypes, comm);
}
ISTHMUS_ENTRY(int, Alltoallw_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
 MPI_Comm comm) {
  return alltoallw(Blocking{"MPI_Alltoallw_c"}, sendbuf, Lists{sendcounts, sdispls}, sendtypes, recvbuf,
                   Lists{recvcounts, rdispls}, recvtypes, comm);
}

}  // namespace isthmus::abi
