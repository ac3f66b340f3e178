// MPI 5.0, sections 6.5 to 6.8: the collectives with a count, and mostly a place, for each rank.

#include "abi/collective.hpp"

namespace isthmus::abi {
namespace {

template <class Count, class Displacement>
int gatherv(const char* function, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
            void* recvbuf, Lists<Count, Displacement> lists, MPI_Datatype recvtype, int root,
            MPI_Comm comm) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    Role role;
    ISTHMUS_TRY(find_role(c, root, role));
    coll::In in;
    coll::OutV out;
    if (role.contributes) ISTHMUS_TRY(find_in(sendbuf, sendcount, sendtype, 1, role.in_place, in));
    if (role.at_root) ISTHMUS_TRY(find_out_v(recvbuf, lists, recvtype, c.remote_size(), out));
    return coll::gatherv(in, out, root, c);
  });
}

template <class Count, class Displacement>
int scatterv(const char* function, const void* sendbuf, Lists<Count, Displacement> lists,
             MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
             MPI_Comm comm) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    Role role;
    ISTHMUS_TRY(find_role(c, root, role));
    coll::InV in;
    coll::Out out;
    if (role.contributes) ISTHMUS_TRY(find_out(recvbuf, recvcount, recvtype, 1, role.in_place, out));
    if (role.at_root) ISTHMUS_TRY(find_in_v(sendbuf, lists, sendtype, c.remote_size(), false, in));
    return coll::scatterv(in, out, root, c);
  });
}

template <class Count, class Displacement>
int allgatherv(const char* function, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
               void* recvbuf, Lists<Count, Displacement> lists, MPI_Datatype recvtype,
               MPI_Comm comm) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    coll::In in;
    coll::OutV out;
    ISTHMUS_TRY(find_in(sendbuf, sendcount, sendtype, 1, !c.is_inter(), in));
    ISTHMUS_TRY(find_out_v(recvbuf, lists, recvtype, c.remote_size(), out));
    return coll::allgatherv(in, out, c);
  });
}

template <class Count, class Displacement>
int alltoallv(const char* function, const void* sendbuf, Lists<Count, Displacement> send_lists,
              MPI_Datatype sendtype, void* recvbuf, Lists<Count, Displacement> receive_lists,
              MPI_Datatype recvtype, MPI_Comm comm) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    coll::InV in;
    coll::OutV out;
    ISTHMUS_TRY(find_in_v(sendbuf, send_lists, sendtype, c.remote_size(), !c.is_inter(), in));
    ISTHMUS_TRY(find_out_v(recvbuf, receive_lists, recvtype, c.remote_size(), out));
    return coll::alltoallv(in, out, c);
  });
}

inline constexpr ArgumentNames typed_send_names{"sendbuf", "sendcounts", "sendtypes"};
inline constexpr ArgumentNames typed_receive_names{"recvbuf", "recvcounts", "recvtypes"};

/// The arrays of one side of an alltoallw are all there.
template <class Count, class Displacement>
Result<> check_arrays(const Lists<Count, Displacement>& lists, const MPI_Datatype* types,
                      const ArgumentNames& names) {
  ISTHMUS_TRY(check_pointer(lists.counts, names.count));
  ISTHMUS_TRY(check_pointer(types, names.datatype));
  return check_pointer(lists.displacements, "displs");
}

template <class Count, class Displacement>
int alltoallw(const char* function, const void* sendbuf, Lists<Count, Displacement> send_lists,
              const MPI_Datatype* sendtypes, void* recvbuf, Lists<Count, Displacement> receive_lists,
              const MPI_Datatype* recvtypes, MPI_Comm comm) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    const int n = c.remote_size();
    ISTHMUS_TRY(check_arrays(receive_lists, recvtypes, typed_receive_names));
    const coll::Integers receive_counts = integers(receive_lists.counts);
    auto out_types = find_types(recvbuf, receive_counts, recvtypes, n, typed_receive_names);
    if (!out_types) return std::unexpected(std::move(out_types).error());
    const coll::OutW out{recvbuf, receive_counts, integers(receive_lists.displacements), *out_types};
    if (sendbuf == MPI_IN_PLACE && !c.is_inter()) return coll::alltoallw({.buffer = sendbuf}, out, c);

    ISTHMUS_TRY(check_arrays(send_lists, sendtypes, typed_send_names));
    const coll::Integers send_counts = integers(send_lists.counts);
    auto in_types = find_types(sendbuf, send_counts, sendtypes, n, typed_send_names);
    if (!in_types) return std::unexpected(std::move(in_types).error());
    return coll::alltoallw({sendbuf, send_counts, integers(send_lists.displacements), *in_types}, out, c);
  });
}

}  // namespace

ISTHMUS_ENTRY(int, Gatherv)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
 const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return gatherv("MPI_Gatherv", sendbuf, sendcount, sendtype, recvbuf, Lists{recvcounts, displs}, recvtype,
                 root, comm);
}
ISTHMUS_ENTRY(int, Gatherv_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
 const MPI_Aint displs[], MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return gatherv("MPI_Gatherv_c", sendbuf, sendcount, sendtype, recvbuf, Lists{recvcounts, displs}, recvtype,
                 root, comm);
}

ISTHMUS_ENTRY(int, Scatterv)
(const void* sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype, void* recvbuf,
 int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return scatterv("MPI_Scatterv", sendbuf, Lists{sendcounts, displs}, sendtype, recvbuf, recvcount, recvtype,
                  root, comm);
}
ISTHMUS_ENTRY(int, Scatterv_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint displs[], MPI_Datatype sendtype,
 void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return scatterv("MPI_Scatterv_c", sendbuf, Lists{sendcounts, displs}, sendtype, recvbuf, recvcount,
                  recvtype, root, comm);
}

ISTHMUS_ENTRY(int, Allgatherv)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
 const int displs[], MPI_Datatype recvtype, MPI_Comm comm) {
  return allgatherv("MPI_Allgatherv", sendbuf, sendcount, sendtype, recvbuf, Lists{recvcounts, displs},
                    recvtype, comm);
}
ISTHMUS_ENTRY(int, Allgatherv_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
 const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm) {
  return allgatherv("MPI_Allgatherv_c", sendbuf, sendcount, sendtype, recvbuf, Lists{recvcounts, displs},
                    recvtype, comm);
}

ISTHMUS_ENTRY(int, Alltoallv)
(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype, void* recvbuf,
 const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm) {
  return alltoallv("MPI_Alltoallv", sendbuf, Lists{sendcounts, sdispls}, sendtype, recvbuf,
                   Lists{recvcounts, rdispls}, recvtype, comm);
}
ISTHMUS_ENTRY(int, Alltoallv_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], MPI_Datatype sendtype,
 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype,
 MPI_Comm comm) {
  return alltoallv("MPI_Alltoallv_c", sendbuf, Lists{sendcounts, sdispls}, sendtype, recvbuf,
                   Lists{recvcounts, rdispls}, recvtype, comm);
}

ISTHMUS_ENTRY(int, Alltoallw)
(const void* sendbuf, const int sendcounts[], const int sdispls[], const MPI_Datatype sendtypes[],
 void* recvbuf, const int recvcounts[], const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm) {
  return alltoallw("MPI_Alltoallw", sendbuf, Lists{sendcounts, sdispls}, sendtypes, recvbuf,
                   Lists{recvcounts, rdispls}, recvtypes, comm);
}
ISTHMUS_ENTRY(int, Alltoallw_c)
(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
 MPI_Comm comm) {
  return alltoallw("MPI_Alltoallw_c", sendbuf, Lists{sendcounts, sdispls}, sendtypes, recvbuf,
                   Lists{recvcounts, rdispls}, recvtypes, comm);
}

}  // namespace isthmus::abi
