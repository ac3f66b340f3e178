#include "coll/entry/stand_in_calls.hpp"

#include "coll/messages/neighbor.hpp"

namespace isthmus::coll {
namespace {

/// What the caller's role in a rooted collective is.
struct Role {
  bool root;         ///< its root
  bool contributes;  ///< has a buffer of its own beside the root's

  Role(const Communicator& comm, int root_rank)
      : root(comm.is_inter() ? root_rank == root_here : root_rank == comm.rank()),
        contributes(!comm.is_inter() || root_rank >= 0) {}
};

/// What is done with the receive buffer when `send` is `in_place` or not.
Use result_use(const void* send) {
  return send == in_place ? Use::both : Use::write;
}

std::int64_t sum(const Integers& counts, int n) {
  std::int64_t total = 0;
  for (int i = 0; i < n; ++i)
    total += counts[i];
  return total;
}

template <class Call>
Call gather(Call c, StandIns& stand_ins, Communicator& comm) {
  const Role role(comm, c.root);
  const Use use = result_use(c.send.buffer);
  if (role.contributes) c.send = stand_ins.of(c.send, 1);
  if (role.root) c.receive = stand_ins.of(c.receive, comm.remote_size(), use);
  return c;
}

template <class Call>
Call scatter(Call c, StandIns& stand_ins, Communicator& comm) {
  const Role role(comm, c.root);
  if (role.root) c.send = stand_ins.of(c.send, comm.remote_size());
  if (role.contributes) c.receive = stand_ins.of(c.receive, 1);
  return c;
}

/// `send_blocks`: in the send buffer.
template <class Call>
Call exchange(Call c, int send_blocks, StandIns& stand_ins, Communicator& comm) {
  const Use use = result_use(c.send.buffer);
  c.send = stand_ins.of(c.send, send_blocks);
  c.receive = stand_ins.of(c.receive, comm.remote_size(), use);
  return c;
}

/// A reduction of `count` elements, of which `result_count` come out, to all.
template <class Call>
Call reduce(Call c, std::int64_t count, std::int64_t result_count, StandIns& stand_ins) {
  const bool here = c.send == in_place;
  const Use use = result_use(c.send);
  c.send = stand_ins.of(In{c.send, count, c.what.type}, 1).buffer;
  c.receive = stand_ins.of(Out{c.receive, here ? count : result_count, c.what.type}, 1, use).buffer;
  return c;
}

/// `all`: every destination gets a block of its own. Blocks from beyond a grid's end keep what they have.
template <class Call>
Call neighbors(Call c, bool all, StandIns& stand_ins, Communicator& comm) {
  const auto found = Neighborhood::of(comm);
  if (!found) return c;  // which is an error of the collective
  c.send = stand_ins.of(c.send, all ? static_cast<int>((*found)->destinations().size()) : 1);
  c.receive = stand_ins.of(c.receive, static_cast<int>((*found)->sources().size()), Use::both);
  return c;
}

}  // namespace

call::Barrier stand_in(const call::Barrier& c, StandIns&, Communicator&) {
  return c;
}

call::Bcast stand_in(const call::Bcast& c, StandIns& stand_ins, Communicator& comm) {
  const Role role(comm, c.root);
  if (!role.root && !role.contributes) return c;
  const Out data = stand_ins.of(Out{c.buffer, c.count, c.type}, 1, role.root ? Use::read : Use::write);
  return {data.buffer, c.count, c.type, c.root};
}

call::Gather stand_in(const call::Gather& c, StandIns& stand_ins, Communicator& comm) {
  return gather(c, stand_ins, comm);
}
call::Gatherv stand_in(const call::Gatherv& c, StandIns& stand_ins, Communicator& comm) {
  return gather(c, stand_ins, comm);
}
call::Scatter stand_in(const call::Scatter& c, StandIns& stand_ins, Communicator& comm) {
  return scatter(c, stand_ins, comm);
}
call::Scatterv stand_in(const call::Scatterv& c, StandIns& stand_ins, Communicator& comm) {
  return scatter(c, stand_ins, comm);
}

call::Allgather stand_in(const call::Allgather& c, StandIns& stand_ins, Communicator& comm) {
  return exchange(c, 1, stand_ins, comm);
}
call::Allgatherv stand_in(const call::Allgatherv& c, StandIns& stand_ins, Communicator& comm) {
  return exchange(c, 1, stand_ins, comm);
}
call::Alltoall stand_in(const call::Alltoall& c, StandIns& stand_ins, Communicator& comm) {
  return exchange(c, comm.remote_size(), stand_ins, comm);
}
call::Alltoallv stand_in(const call::Alltoallv& c, StandIns& stand_ins, Communicator& comm) {
  return exchange(c, comm.remote_size(), stand_ins, comm);
}
call::Alltoallw stand_in(const call::Alltoallw& c, StandIns& stand_ins, Communicator& comm) {
  return exchange(c, comm.remote_size(), stand_ins, comm);
}

call::Reduce stand_in(const call::Reduce& given, StandIns& stand_ins, Communicator& comm) {
  call::Reduce c = given;
  const Role role(comm, c.root);
  const Use use = result_use(c.send);
  if (role.contributes) c.send = stand_ins.of(In{c.send, c.what.count, c.what.type}, 1).buffer;
  if (role.root) c.receive = stand_ins.of(Out{c.receive, c.what.count, c.what.type}, 1, use).buffer;
  return c;
}

call::Allreduce stand_in(const call::Allreduce& c, StandIns& stand_ins, Communicator&) {
  return reduce(c, c.what.count, c.what.count, stand_ins);
}
call::ReduceScatter stand_in(const call::ReduceScatter& c, StandIns& stand_ins, Communicator& comm) {
  return reduce(c, sum(c.counts, comm.size()), c.counts[comm.rank()], stand_ins);
}
call::ReduceScatterBlock stand_in(const call::ReduceScatterBlock& c, StandIns& stand_ins,
                                  Communicator& comm) {
  return reduce(c, c.what.count * comm.size(), c.what.count, stand_ins);
}
call::Scan stand_in(const call::Scan& c, StandIns& stand_ins, Communicator&) {
  return reduce(c, c.what.count, c.what.count, stand_ins);
}
call::Exscan stand_in(const call::Exscan& c, StandIns& stand_ins, Communicator& comm) {
  // Rank 0 gets nothing.
  return reduce(c, c.what.count, comm.rank() == 0 ? 0 : c.what.count, stand_ins);
}

call::NeighborAllgather stand_in(const call::NeighborAllgather& c, StandIns& stand_ins, Communicator& comm) {
  return neighbors(c, false, stand_ins, comm);
}
call::NeighborAllgatherv stand_in(const call::NeighborAllgatherv& c, StandIns& stand_ins,
                                  Communicator& comm) {
  return neighbors(c, false, stand_ins, comm);
}
call::NeighborAlltoall stand_in(const call::NeighborAlltoall& c, StandIns& stand_ins, Communicator& comm) {
  return neighbors(c, true, stand_ins, comm);
}
call::NeighborAlltoallv stand_in(const call::NeighborAlltoallv& c, StandIns& stand_ins, Communicator& comm) {
  return neighbors(c, true, stand_ins, comm);
}
call::NeighborAlltoallw stand_in(const call::NeighborAlltoallw& c, StandIns& stand_ins, Communicator& comm) {
  return neighbors(c, true, stand_ins, comm);
}

}  // namespace isthmus::coll
