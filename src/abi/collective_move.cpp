// MPI 5.0, sections 6.3 to 6.8: barrier and the collectives that move data in equal blocks.

#include "abi/collective.hpp"

namespace isthmus::abi {
namespace {

[[gnu::always_inline]] inline int bcast(const char* function, void* buffer, MPI_Count count,
                                        MPI_Datatype datatype, int root, MPI_Comm comm) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    if (!is_root(c, root)) [[unlikely]] {
      Role role;
      ISTHMUS_TRY(find_role(c, root, role));
      if (root == MPI_PROC_NULL) return {};
    }
    const Datatype* type = nullptr;
    if (!good_data(Runtime::get(), buffer, count, datatype, type)) [[unlikely]]
      return std::unexpected(explain_payload(buffer, count, datatype, plain_names));
    return coll::bcast(buffer, count, *type, root, c);
  });
}

/// The place of the own block in the buffer of all blocks.
const void* own_block(const coll::Out& all, const Communicator& comm) {
  return static_cast<const std::byte*>(all.buffer) + comm.rank() * all.count * all.type->extent();
}

int gather(const char* function, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
           void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    Role role;
    ISTHMUS_TRY(find_role(c, root, role));
    coll::In in;
    coll::Out out;
    if (role.contributes) ISTHMUS_TRY(find_in(sendbuf, sendcount, sendtype, 1, role.in_place, in));
    if (role.at_root) {
      ISTHMUS_TRY(find_out(recvbuf, recvcount, recvtype, c.remote_size(), false, out));
      if (role.contributes) ISTHMUS_TRY(check_apart(sendbuf, own_block(out, c), recvcount));
    }
    return coll::gather(in, out, root, c);
  });
}

int scatter(const char* function, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
            void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    Role role;
    ISTHMUS_TRY(find_role(c, root, role));
    coll::In in;
    coll::Out out;
    if (role.contributes) ISTHMUS_TRY(find_out(recvbuf, recvcount, recvtype, 1, role.in_place, out));
    if (role.at_root) {
      ISTHMUS_TRY(find_in(sendbuf, sendcount, sendtype, c.remote_size(), false, in));
      const coll::Out all{const_cast<void*>(sendbuf), sendcount, in.type};
      if (role.contributes) ISTHMUS_TRY(check_apart(own_block(all, c), recvbuf, sendcount));
    }
    return coll::scatter(in, out, root, c);
  });
}

int allgather(const char* function, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
              void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    coll::In in;
    coll::Out out;
    ISTHMUS_TRY(find_in(sendbuf, sendcount, sendtype, 1, !c.is_inter(), in));
    ISTHMUS_TRY(find_out(recvbuf, recvcount, recvtype, c.remote_size(), false, out));
    if (!c.is_inter()) ISTHMUS_TRY(check_apart(sendbuf, own_block(out, c), recvcount));
    return coll::allgather(in, out, c);
  });
}

int alltoall(const char* function, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
             void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    coll::In in;
    coll::Out out;
    ISTHMUS_TRY(find_in(sendbuf, sendcount, sendtype, c.remote_size(), !c.is_inter(), in));
    ISTHMUS_TRY(find_out(recvbuf, recvcount, recvtype, c.remote_size(), false, out));
    ISTHMUS_TRY(check_apart(sendbuf, recvbuf, recvcount));
    return coll::alltoall(in, out, c);
  });
}

}  // namespace

ISTHMUS_ENTRY(int, Barrier)(MPI_Comm comm) {
  return call("MPI_Barrier", comm, [](Communicator& c) { return coll::barrier(c); });
}

ISTHMUS_ENTRY(int, Bcast)(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  return bcast("MPI_Bcast", buffer, count, datatype, root, comm);
}
ISTHMUS_ENTRY(int, Bcast_c)(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  return bcast("MPI_Bcast_c", buffer, count, datatype, root, comm);
}

ISTHMUS_ENTRY(int, Gather)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return gather("MPI_Gather", sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
}
ISTHMUS_ENTRY(int, Gather_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return gather("MPI_Gather_c", sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
}

ISTHMUS_ENTRY(int, Scatter)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return scatter("MPI_Scatter", sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
}
ISTHMUS_ENTRY(int, Scatter_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return scatter("MPI_Scatter_c", sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
}

ISTHMUS_ENTRY(int, Allgather)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm) {
  return allgather("MPI_Allgather", sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}
ISTHMUS_ENTRY(int, Allgather_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, MPI_Comm comm) {
  return allgather("MPI_Allgather_c", sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}

ISTHMUS_ENTRY(int, Alltoall)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
 MPI_Datatype recvtype, MPI_Comm comm) {
  return alltoall("MPI_Alltoall", sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}
ISTHMUS_ENTRY(int, Alltoall_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
 MPI_Datatype recvtype, MPI_Comm comm) {
  return alltoall("MPI_Alltoall_c", sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}

}  // namespace isthmus::abi
