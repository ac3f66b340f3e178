#pragma once

#include <cstdint>

#include "coll/call/coll.hpp"

/// Every collective as its arguments, which have been checked, so that what does something with any of them
/// is written once: each has an overload of `run` (blocking), `over_messages` (a flow) and `stand_in` (GPU
/// memory).
namespace isthmus::coll::call {

struct Barrier {};
struct Bcast {
  void* buffer;
  std::int64_t count;
  const Datatype* type;
  int root;
};

/// What each process contributes, and where it goes.
template <class Send, class Receive>
struct Move {
  Send send;
  Receive receive;
};
template <class Send, class Receive>
struct RootedMove : Move<Send, Receive> {
  int root;
};
struct Gather : RootedMove<In, Out> {};
struct Gatherv : RootedMove<In, OutV> {};
struct Scatter : RootedMove<In, Out> {};
struct Scatterv : RootedMove<InV, Out> {};
struct Allgather : Move<In, Out> {};
struct Allgatherv : Move<In, OutV> {};
struct Alltoall : Move<In, Out> {};
struct Alltoallv : Move<InV, OutV> {};
struct Alltoallw : Move<InW, OutW> {};

// With the neighbours of the communicator's topology (MPI 5.0, section 8.6); a block for each.
struct NeighborAllgather : Move<In, Out> {};
struct NeighborAllgatherv : Move<In, OutV> {};
struct NeighborAlltoall : Move<In, Out> {};
struct NeighborAlltoallv : Move<InV, OutV> {};
struct NeighborAlltoallw : Move<InW, OutW> {};

struct Combine {
  const void* send;
  void* receive;
  Reduction what;
};
struct Reduce : Combine {
  int root;
};
struct Allreduce : Combine {};
struct ReduceScatter : Combine {
  Integers counts;
};
struct ReduceScatterBlock : Combine {};
struct Scan : Combine {};
struct Exscan : Combine {};

}  // namespace isthmus::coll::call

namespace isthmus::coll {

// The blocking forms.
inline Result<> run(const call::Barrier&, Communicator& comm) {
  return barrier(comm);
}
inline Result<> run(const call::Bcast& c, Communicator& comm) {
  return bcast(c.buffer, c.count, *c.type, c.root, comm);
}
inline Result<> run(const call::Gather& c, Communicator& comm) {
  return gather(c.send, c.receive, c.root, comm);
}
inline Result<> run(const call::Gatherv& c, Communicator& comm) {
  return gatherv(c.send, c.receive, c.root, comm);
}
inline Result<> run(const call::Scatter& c, Communicator& comm) {
  return scatter(c.send, c.receive, c.root, comm);
}
inline Result<> run(const call::Scatterv& c, Communicator& comm) {
  return scatterv(c.send, c.receive, c.root, comm);
}
inline Result<> run(const call::Allgather& c, Communicator& comm) {
  return allgather(c.send, c.receive, comm);
}
inline Result<> run(const call::Allgatherv& c, Communicator& comm) {
  return allgatherv(c.send, c.receive, comm);
}
inline Result<> run(const call::Alltoall& c, Communicator& comm) {
  return alltoall(c.send, c.receive, comm);
}
inline Result<> run(const call::Alltoallv& c, Communicator& comm) {
  return alltoallv(c.send, c.receive, comm);
}
inline Result<> run(const call::Alltoallw& c, Communicator& comm) {
  return alltoallw(c.send, c.receive, comm);
}
inline Result<> run(const call::Reduce& c, Communicator& comm) {
  return reduce(c.send, c.receive, c.what, c.root, comm);
}
inline Result<> run(const call::Allreduce& c, Communicator& comm) {
  return allreduce(c.send, c.receive, c.what, comm);
}
inline Result<> run(const call::ReduceScatter& c, Communicator& comm) {
  return reduce_scatter(c.send, c.receive, c.counts, c.what, comm);
}
inline Result<> run(const call::ReduceScatterBlock& c, Communicator& comm) {
  return reduce_scatter_block(c.send, c.receive, c.what, comm);
}
inline Result<> run(const call::Scan& c, Communicator& comm) {
  return scan(c.send, c.receive, c.what, comm);
}
inline Result<> run(const call::Exscan& c, Communicator& comm) {
  return exscan(c.send, c.receive, c.what, comm);
}
Result<> run(const call::NeighborAllgather& c, Communicator& comm);
Result<> run(const call::NeighborAllgatherv& c, Communicator& comm);
Result<> run(const call::NeighborAlltoall& c, Communicator& comm);
Result<> run(const call::NeighborAlltoallv& c, Communicator& comm);
Result<> run(const call::NeighborAlltoallw& c, Communicator& comm);

}  // namespace isthmus::coll
