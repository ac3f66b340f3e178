#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "abi/coll/collective.hpp"
#include "abi/coll/form.hpp"

/// MPI 5.0, sections 6.5 to 6.8: the collectives with a count, and mostly a place, for each rank. `Form`:
/// Blocking, Nonblocking or Persistent.
namespace isthmus::abi {

/// The own block among those of all ranks must not be what this rank sends to itself, or receives from
/// itself.
template <class AllV>
Result<> check_own_apart(const AllV& all, const void* own, const Communicator& comm) {
  const int rank = comm.rank();
  const auto* const data = static_cast<const std::byte*>(all.buffer);
  const void* const block = data ? data + all.displacements[rank] * all.type->extent() : nullptr;
  return check_apart(block, own, all.counts[rank]);
}

/// The same blocks must not be sent and received. Blocks that are others may have a buffer in common.
template <class Count, class Displacement>
Result<> check_blocks_apart(const void* send, const Lists<Count, Displacement>& send_lists,
                            const void* receive, const Lists<Count, Displacement>& receive_lists,
                            int blocks) {
  const bool are_same = send == receive && send_lists.counts == receive_lists.counts &&
                        send_lists.displacements == receive_lists.displacements;
  if (!are_same) [[likely]]
    return {};
  const auto is_some = [](Count count) { return count != 0; };
  return check_apart(send, receive, std::any_of(send_lists.counts, send_lists.counts + blocks, is_some));
}

template <class Form, class Count, class Displacement>
int gatherv(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
            Lists<Count, Displacement> lists, MPI_Datatype recvtype, int root, MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    Role role;
    ISTHMUS_TRY(find_role(c, root, role));
    coll::In in;
    coll::OutV out;
    if (role.contributes) ISTHMUS_TRY(find_in(sendbuf, sendcount, sendtype, 1, role.in_place, in));
    if (role.at_root) {
      ISTHMUS_TRY(find_out_v(recvbuf, lists, recvtype, c.remote_size(), out));
      if (role.contributes) ISTHMUS_TRY(check_own_apart(out, sendbuf, c));
    }
    return form.run(c, coll::call::Gatherv{in, out, root});
  });
}

template <class Form, class Count, class Displacement>
int scatterv(const Form& form, const void* sendbuf, Lists<Count, Displacement> lists, MPI_Datatype sendtype,
             void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    Role role;
    ISTHMUS_TRY(find_role(c, root, role));
    coll::InV in;
    coll::Out out;
    if (role.contributes) ISTHMUS_TRY(find_out(recvbuf, recvcount, recvtype, 1, role.in_place, out));
    if (role.at_root) {
      ISTHMUS_TRY(find_in_v(sendbuf, lists, sendtype, c.remote_size(), false, in));
      if (role.contributes) ISTHMUS_TRY(check_own_apart(in, recvbuf, c));
    }
    return form.run(c, coll::call::Scatterv{in, out, root});
  });
}

template <class Form, class Count, class Displacement>
int allgatherv(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
               void* recvbuf, Lists<Count, Displacement> lists, MPI_Datatype recvtype,
               MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    coll::In in;
    coll::OutV out;
    ISTHMUS_TRY(find_in(sendbuf, sendcount, sendtype, 1, !c.is_inter(), in));
    ISTHMUS_TRY(find_out_v(recvbuf, lists, recvtype, c.remote_size(), out));
    if (!c.is_inter()) ISTHMUS_TRY(check_own_apart(out, sendbuf, c));
    return form.run(c, coll::call::Allgatherv{in, out});
  });
}

template <class Form, class Count, class Displacement>
int alltoallv(const Form& form, const void* sendbuf, Lists<Count, Displacement> send_lists,
              MPI_Datatype sendtype, void* recvbuf, Lists<Count, Displacement> receive_lists,
              MPI_Datatype recvtype, MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    coll::InV in;
    coll::OutV out;
    ISTHMUS_TRY(find_in_v(sendbuf, send_lists, sendtype, c.remote_size(), !c.is_inter(), in));
    ISTHMUS_TRY(find_out_v(recvbuf, receive_lists, recvtype, c.remote_size(), out));
    ISTHMUS_TRY(check_blocks_apart(sendbuf, send_lists, recvbuf, receive_lists, c.remote_size()));
    return form.run(c, coll::call::Alltoallv{in, out});
  });
}

template <class Form, class Count, class Displacement>
int alltoallw(const Form& form, const void* sendbuf, Lists<Count, Displacement> send_lists,
              const MPI_Datatype* sendtypes, void* recvbuf, Lists<Count, Displacement> receive_lists,
              const MPI_Datatype* recvtypes, MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    const int n = c.remote_size();
    ISTHMUS_TRY(check_arrays(receive_lists, recvtypes, typed_receive_names));
    const coll::Integers receive_counts = integers(receive_lists.counts);
    auto out_types = find_types(recvbuf, receive_counts, integers(receive_lists.displacements), recvtypes, n,
                                typed_receive_names);
    if (!out_types) return std::unexpected(std::move(out_types).error());
    const coll::OutW out{recvbuf, receive_counts, integers(receive_lists.displacements), *out_types};
    if (sendbuf == MPI_IN_PLACE && !c.is_inter()) {
      const coll::call::Alltoallw in_place{coll::InW{.buffer = sendbuf}, out};
      return form.run(c, in_place, TypeList{}, std::move(*out_types));
    }

    ISTHMUS_TRY(check_arrays(send_lists, sendtypes, typed_send_names));
    const coll::Integers send_counts = integers(send_lists.counts);
    auto in_types =
        find_types(sendbuf, send_counts, integers(send_lists.displacements), sendtypes, n, typed_send_names);
    if (!in_types) return std::unexpected(std::move(in_types).error());
    if (sendtypes == recvtypes)
      ISTHMUS_TRY(check_blocks_apart(sendbuf, send_lists, recvbuf, receive_lists, n));
    const coll::InW in{sendbuf, send_counts, integers(send_lists.displacements), *in_types};
    return form.run(c, coll::call::Alltoallw{in, out}, std::move(*in_types), std::move(*out_types));
  });
}

}  // namespace isthmus::abi
