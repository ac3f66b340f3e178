// MPI 5.0, section 6.13: the collectives with a count, and mostly a place, for each rank, persistent.

#include "abi/coll/vector.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Gatherv_init)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
 const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return gatherv(Persistent{"MPI_Gatherv_init", info, request}, sendbuf, sendcount, sendtype, recvbuf,
                 Lists{recvcounts, displs}, recvtype, root, comm);
}
ISTHMUS_ENTRY(int, Gatherv_init_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
 const MPI_Aint displs[], MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info,
 MPI_Request* request) {
  return gatherv(Persistent{"MPI_Gatherv_init_c", info, request}, sendbuf, sendcount, sendtype, recvbuf,
                 Lists{recvcounts, displs}, recvtype, root, comm);
}

ISTHMUS_ENTRY(int, Scatterv_init)
(const void* sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype, void* recvbuf,
 int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return scatterv(Persistent{"MPI_Scatterv_init", info, request}, sendbuf, Lists{sendcounts, displs},
                  sendtype, recvbuf, recvcount, recvtype, root, comm);
}
ISTHMUS_ENTRY(int, Scatterv_init_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint displs[], MPI_Datatype sendtype,
 void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info,
 MPI_Request* request) {
  return scatterv(Persistent{"MPI_Scatterv_init_c", info, request}, sendbuf, Lists{sendcounts, displs},
                  sendtype, recvbuf, recvcount, recvtype, root, comm);
}

ISTHMUS_ENTRY(int, Allgatherv_init)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
 const int displs[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return allgatherv(Persistent{"MPI_Allgatherv_init", info, request}, sendbuf, sendcount, sendtype, recvbuf,
                    Lists{recvcounts, displs}, recvtype, comm);
}
ISTHMUS_ENTRY(int, Allgatherv_init_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
 const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return allgatherv(Persistent{"MPI_Allgatherv_init_c", info, request}, sendbuf, sendcount, sendtype, recvbuf,
                    Lists{recvcounts, displs}, recvtype, comm);
}

ISTHMUS_ENTRY(int, Alltoallv_init)
(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype, void* recvbuf,
 const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
 MPI_Request* request) {
  return alltoallv(Persistent{"MPI_Alltoallv_init", info, request}, sendbuf, Lists{sendcounts, sdispls},
                   sendtype, recvbuf, Lists{recvcounts, rdispls}, recvtype, comm);
}
ISTHMUS_ENTRY(int, Alltoallv_init_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], MPI_Datatype sendtype,
 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
 MPI_Info info, MPI_Request* request) {
  return alltoallv(Persistent{"MPI_Alltoallv_init_c", info, request}, sendbuf, Lists{sendcounts, sdispls},
                   sendtype, recvbuf, Lists{recvcounts, rdispls}, recvtype, comm);
}

ISTHMUS_ENTRY(int, Alltoallw_init)
(const void* sendbuf, const int sendcounts[], const int sdispls[], const MPI_Datatype sendtypes[],
 void* recvbuf, const int recvcounts[], const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
 MPI_Info info, MPI_Request* request) {
  return alltoallw(Persistent{"MPI_Alltoallw_init", info, request}, sendbuf, Lists{sendcounts, sdispls},
                   sendtypes, recvbuf, Lists{recvcounts, rdispls}, recvtypes, comm);
}
ISTHMUS_ENTRY(int, Alltoallw_init_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
 MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return alltoallw(Persistent{"MPI_Alltoallw_init_c", info, request}, sendbuf, Lists{sendcounts, sdispls},
                   sendtypes, recvbuf, Lists{recvcounts, rdispls}, recvtypes, comm);
}

}  // namespace isthmus::abi
