#pragma once

#include <utility>

#include "abi/coll/collective.hpp"
#include "abi/coll/form.hpp"
#include "coll/messages/neighbor.hpp"

/// MPI 5.0, sections 8.6 to 8.8: the collectives among the neighbours of a topology. MPI_IN_PLACE is not
/// allowed. `Form`: Blocking, Nonblocking or Persistent.
namespace isthmus::abi {

/// For functions on a communicator with a topology. `body(comm, sources, destinations)`, which are numbers of
/// neighbours.
template <class Form, class Body>
int call_among_neighbors(const Form& form, MPI_Comm comm, Body&& body) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    const auto neighbors = coll::Neighborhood::of(c);
    if (!neighbors) return fail(neighbors.error().error_class(), neighbors.error().text());
    return body(c, static_cast<int>((*neighbors)->sources().size()),
                static_cast<int>((*neighbors)->destinations().size()));
  });
}

/// Without neighbours there are no lists to look at.
template <class Count, class Displacement>
Result<> find_in_blocks(const void* buffer, const Lists<Count, Displacement>& lists, MPI_Datatype datatype,
                        int blocks, coll::InV& in) {
  if (blocks != 0) return find_in_v(buffer, lists, datatype, blocks, false, in);
  in.type = &Datatype::basic(Basic::byte);
  return {};
}
template <class Count, class Displacement>
Result<> find_out_blocks(void* buffer, const Lists<Count, Displacement>& lists, MPI_Datatype datatype,
                         int blocks, coll::OutV& out) {
  if (blocks != 0) return find_out_v(buffer, lists, datatype, blocks, out);
  out.type = &Datatype::basic(Basic::byte);
  return {};
}

template <class Form>
int neighbor_allgather(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                       void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) noexcept {
  return call_among_neighbors(form, comm, [&](Communicator& c, int sources, int) -> Result<> {
    coll::In in;
    coll::Out out;
    ISTHMUS_TRY(find_in(sendbuf, sendcount, sendtype, 1, false, in));
    ISTHMUS_TRY(find_out(recvbuf, recvcount, recvtype, sources, false, out));
    return form.run(c, coll::call::NeighborAllgather{in, out});
  });
}

template <class Form, class Count, class Displacement>
int neighbor_allgatherv(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                        void* recvbuf, Lists<Count, Displacement> lists, MPI_Datatype recvtype,
                        MPI_Comm comm) noexcept {
  return call_among_neighbors(form, comm, [&](Communicator& c, int sources, int) -> Result<> {
    coll::In in;
    coll::OutV out;
    ISTHMUS_TRY(find_in(sendbuf, sendcount, sendtype, 1, false, in));
    ISTHMUS_TRY(find_out_blocks(recvbuf, lists, recvtype, sources, out));
    return form.run(c, coll::call::NeighborAllgatherv{in, out});
  });
}

template <class Form>
int neighbor_alltoall(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                      void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) noexcept {
  return call_among_neighbors(form, comm, [&](Communicator& c, int sources, int destinations) -> Result<> {
    coll::In in;
    coll::Out out;
    ISTHMUS_TRY(find_in(sendbuf, sendcount, sendtype, destinations, false, in));
    ISTHMUS_TRY(find_out(recvbuf, recvcount, recvtype, sources, false, out));
    return form.run(c, coll::call::NeighborAlltoall{in, out});
  });
}

template <class Form, class Count, class Displacement>
int neighbor_alltoallv(const Form& form, const void* sendbuf, Lists<Count, Displacement> send_lists,
                       MPI_Datatype sendtype, void* recvbuf, Lists<Count, Displacement> receive_lists,
                       MPI_Datatype recvtype, MPI_Comm comm) noexcept {
  return call_among_neighbors(form, comm, [&](Communicator& c, int sources, int destinations) -> Result<> {
    coll::InV in;
    coll::OutV out;
    ISTHMUS_TRY(find_in_blocks(sendbuf, send_lists, sendtype, destinations, in));
    ISTHMUS_TRY(find_out_blocks(recvbuf, receive_lists, recvtype, sources, out));
    return form.run(c, coll::call::NeighborAlltoallv{in, out});
  });
}

template <class Form, class Count, class Displacement>
int neighbor_alltoallw(const Form& form, const void* sendbuf, Lists<Count, Displacement> send_lists,
                       const MPI_Datatype* sendtypes, void* recvbuf, Lists<Count, Displacement> receive_lists,
                       const MPI_Datatype* recvtypes, MPI_Comm comm) noexcept {
  return call_among_neighbors(form, comm, [&](Communicator& c, int sources, int destinations) -> Result<> {
    if (sources != 0) ISTHMUS_TRY(check_arrays(receive_lists, recvtypes, typed_receive_names));
    if (destinations != 0) ISTHMUS_TRY(check_arrays(send_lists, sendtypes, typed_send_names));
    const coll::Integers receive_counts = integers(receive_lists.counts);
    const coll::Integers send_counts = integers(send_lists.counts);
    auto out_types = find_types(recvbuf, receive_counts, integers(receive_lists.displacements), recvtypes,
                                sources, typed_receive_names);
    if (!out_types) return std::unexpected(std::move(out_types).error());
    auto in_types = find_types(sendbuf, send_counts, integers(send_lists.displacements), sendtypes,
                               destinations, typed_send_names);
    if (!in_types) return std::unexpected(std::move(in_types).error());
    const coll::InW in{sendbuf, send_counts, integers(send_lists.displacements), *in_types};
    const coll::OutW out{recvbuf, receive_counts, integers(receive_lists.displacements), *out_types};
    return form.run(c, coll::call::NeighborAlltoallw{in, out}, std::move(*in_types), std::move(*out_types));
  });
}

}  // namespace isthmus::abi
