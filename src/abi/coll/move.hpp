#pragma once

#include "abi/coll/collective.hpp"
#include "abi/coll/form.hpp"

/// MPI 5.0, sections 6.3 to 6.8: barrier and the collectives that move data in equal blocks. `Form`:
/// Blocking, Nonblocking or Persistent.
namespace isthmus::abi {

template <class Form>
[[gnu::always_inline]] inline int barrier(const Form& form, MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) { return form.run(c, coll::call::Barrier{}); });
}

template <class Form>
[[gnu::always_inline]] inline int bcast(const Form& form, void* buffer, MPI_Count count,
                                        MPI_Datatype datatype, int root, MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    if (!is_root(c, root)) [[unlikely]] {
      Role role;
      ISTHMUS_TRY(find_role(c, root, role));
      if (root == MPI_PROC_NULL) return form.stay_out(c, coll::call::Bcast{.root = root});
    }
    const Datatype* type = nullptr;
    if (!good_data(Runtime::get(), buffer, count, datatype, type)) [[unlikely]]
      return std::unexpected(explain_payload(buffer, count, datatype, plain_names));
    return form.run(c, coll::call::Bcast{buffer, count, type, root});
  });
}

/// The place of the own block in the buffer of all blocks.
inline const void* own_block(const coll::Out& all, const Communicator& comm) {
  return static_cast<const std::byte*>(all.buffer) + comm.rank() * all.count * all.type->extent();
}

template <class Form>
int gather(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
           MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    Role role;
    ISTHMUS_TRY(find_role(c, root, role));
    coll::In in;
    coll::Out out;
    if (role.contributes) ISTHMUS_TRY(find_in(sendbuf, sendcount, sendtype, 1, role.in_place, in));
    if (role.at_root) {
      ISTHMUS_TRY(find_out(recvbuf, recvcount, recvtype, c.remote_size(), false, out));
      if (role.contributes) ISTHMUS_TRY(check_apart(sendbuf, own_block(out, c), recvcount));
    }
    return form.run(c, coll::call::Gather{in, out, root});
  });
}

template <class Form>
int scatter(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
            MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
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
    return form.run(c, coll::call::Scatter{in, out, root});
  });
}

template <class Form>
int allgather(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
              void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    coll::In in;
    coll::Out out;
    ISTHMUS_TRY(find_in(sendbuf, sendcount, sendtype, 1, !c.is_inter(), in));
    ISTHMUS_TRY(find_out(recvbuf, recvcount, recvtype, c.remote_size(), false, out));
    if (!c.is_inter()) ISTHMUS_TRY(check_apart(sendbuf, own_block(out, c), recvcount));
    return form.run(c, coll::call::Allgather{in, out});
  });
}

template <class Form>
int alltoall(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
             MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    coll::In in;
    coll::Out out;
    ISTHMUS_TRY(find_in(sendbuf, sendcount, sendtype, c.remote_size(), !c.is_inter(), in));
    ISTHMUS_TRY(find_out(recvbuf, recvcount, recvtype, c.remote_size(), false, out));
    ISTHMUS_TRY(check_apart(sendbuf, recvbuf, recvcount));
    return form.run(c, coll::call::Alltoall{in, out});
  });
}

}  // namespace isthmus::abi
