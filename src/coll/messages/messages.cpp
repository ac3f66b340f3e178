#include "coll/messages/messages.hpp"

#include "coll/call/local.hpp"
#include "coll/call/operands.hpp"
#include "coll/messages/algorithms.hpp"
#include "coll/messages/inter.hpp"

namespace isthmus::coll {
namespace {

/// What the table has for messages alone.
Algorithm chosen(Ranks ranks, Collective collective, std::uint64_t bytes, bool commutative = true) {
  return select(
      {.collective = collective, .ranks = ranks.size(), .bytes = bytes, .commutative = commutative});
}
Algorithm chosen(Ranks ranks, Collective collective, const Reduction& what, std::int64_t count) {
  return chosen(ranks, collective, bytes_of(count, *what.type), what.op->commutative());
}

bool is_inter(Ranks ranks) {
  return ranks.comm().is_inter();
}

/// For one rank, whose result is the operand.
Flow take_alone(Ranks, const void* send, void* receive, Reduction what) {
  take(send, receive, what);
  co_return;
}

Flow nothing(Ranks) {
  co_return;
}

template <class Receive>
Flow allgather(Ranks ranks, In send, Receive receive, std::uint64_t bytes) {
  if (send.buffer != in_place) copy(whole(send), block(receive, ranks.rank()));
  if (ranks.size() == 1) co_return;
  co_await allgather_by(chosen(ranks, Collective::allgather, bytes), ranks, receive);
}

Flow reduce_scatter(Ranks ranks, const void* send, void* receive, Integers counts, Reduction what) {
  std::int64_t total = 0;
  for (int i = 0; i < ranks.size(); ++i)
    total += counts[i];
  if (chosen(ranks, Collective::reduce_scatter, what, total) == Algorithm::pairwise)
    return reduce_scatter_pairwise(ranks, send, receive, counts, what);
  return reduce_scatter_by_root(ranks, send, receive, counts, what);
}

/// For any `reduce_scatter`.
Flow reduce_scatter_any(Ranks ranks, const call::Combine& c, Integers counts) {
  if (is_inter(ranks)) return inter::reduce_scatter(ranks, c.send, c.receive, counts, c.what);
  if (ranks.size() == 1) return take_alone(ranks, c.send, c.receive, {counts[0], c.what.type, c.what.op});
  return reduce_scatter(ranks, operand(c.send, c.receive), c.receive, counts, c.what);
}

}  // namespace

Flow bcast_by(Algorithm algorithm, Ranks ranks, Payload data, int root) {
  if (algorithm == Algorithm::scatter_allgather) return bcast_scatter_allgather(ranks, data, root);
  return bcast_binomial(ranks, data, root);
}

Flow allgather_by(Algorithm algorithm, Ranks ranks, Out receive) {
  if (algorithm == Algorithm::ring) return allgather_ring(ranks, receive);
  if (algorithm == Algorithm::doubling) return allgather_doubling(ranks, receive);
  return allgather_bruck(ranks, receive);
}

Flow allgather_by(Algorithm algorithm, Ranks ranks, OutV receive) {
  if (algorithm == Algorithm::ring) return allgather_ring(ranks, receive);
  return allgather_bruck(ranks, receive);
}

Flow reduce_by(Algorithm algorithm, Ranks ranks, const void* send, void* receive, Reduction what, int root) {
  if (algorithm == Algorithm::ring) return reduce_ring(ranks, send, receive, what, root);
  return reduce_binomial(ranks, send, receive, what, root);
}

Flow allreduce_by(Algorithm algorithm, Ranks ranks, const void* send, void* receive, Reduction what) {
  if (algorithm == Algorithm::halving) return allreduce_halving(ranks, send, receive, what);
  if (algorithm == Algorithm::ring) return allreduce_ring(ranks, send, receive, what);
  return allreduce_doubling(ranks, send, receive, what);
}

Flow over_messages(Ranks ranks, const call::Barrier&) {
  return is_inter(ranks) ? inter::barrier(ranks) : barrier_dissemination(ranks);
}

Flow over_messages(Ranks ranks, const call::Bcast& c) {
  if (is_inter(ranks) && c.root == null_process) return nothing(ranks);  // its arguments are not significant
  const Payload data = Payload::of(c.buffer, c.count, *c.type);
  if (is_inter(ranks)) return inter::bcast(ranks, data, c.root);
  return bcast_by(chosen(ranks, Collective::bcast, data.bytes), ranks, data, c.root);
}

Flow over_messages(Ranks ranks, const call::Gather& c) {
  if (is_inter(ranks)) return inter::gather(ranks, c.send, c.receive, c.root);
  const bool at_root = ranks.rank() == c.root;
  const std::uint64_t bytes =
      at_root ? bytes_of(c.receive.count, *c.receive.type) : bytes_of(c.send.count, *c.send.type);
  if (ranks.size() > 1 && chosen(ranks, Collective::gather, bytes) == Algorithm::binomial)
    return gather_binomial(ranks, c.send, c.receive, c.root);
  return gather_linear(ranks, c.send, c.receive, c.root);
}

Flow over_messages(Ranks ranks, const call::Gatherv& c) {
  if (is_inter(ranks)) return inter::gather(ranks, c.send, c.receive, c.root);
  return gather_linear(ranks, c.send, c.receive, c.root);
}

Flow over_messages(Ranks ranks, const call::Scatter& c) {
  if (is_inter(ranks)) return inter::scatter(ranks, c.send, c.receive, c.root);
  const bool at_root = ranks.rank() == c.root;
  const std::uint64_t bytes =
      at_root ? bytes_of(c.send.count, *c.send.type) : bytes_of(c.receive.count, *c.receive.type);
  if (ranks.size() > 1 && chosen(ranks, Collective::scatter, bytes) == Algorithm::binomial)
    return scatter_binomial(ranks, c.send, c.receive, c.root);
  return scatter_linear(ranks, c.send, c.receive, c.root);
}

Flow over_messages(Ranks ranks, const call::Scatterv& c) {
  if (is_inter(ranks)) return inter::scatter(ranks, c.send, c.receive, c.root);
  return scatter_linear(ranks, c.send, c.receive, c.root);
}

Flow over_messages(Ranks ranks, const call::Allgather& c) {
  if (is_inter(ranks)) return inter::allgather(ranks, c.send, c.receive);
  return allgather(ranks, c.send, c.receive, bytes_of(c.receive.count, *c.receive.type));
}

Flow over_messages(Ranks ranks, const call::Allgatherv& c) {
  if (is_inter(ranks)) return inter::allgather(ranks, c.send, c.receive);
  return allgather(ranks, c.send, c.receive, largest_block(c.receive, ranks.size()));
}

Flow over_messages(Ranks ranks, const call::Alltoall& c) {
  const bool in_one = c.send.buffer == in_place;
  if (!is_inter(ranks) && ranks.size() > 1 &&
      chosen(ranks, Collective::alltoall, bytes_of(c.receive.count, *c.receive.type)) == Algorithm::bruck)
    return alltoall_bruck(ranks, in_one ? In{c.receive.buffer, c.receive.count, c.receive.type} : c.send,
                          c.receive);
  if (in_one) return alltoall_in_place(ranks, c.receive);
  return alltoall_pairwise(ranks, c.send, c.receive);
}

Flow over_messages(Ranks ranks, const call::Alltoallv& c) {
  if (c.send.buffer == in_place) return alltoall_in_place(ranks, c.receive);
  return alltoall_pairwise(ranks, c.send, c.receive);
}

Flow over_messages(Ranks ranks, const call::Alltoallw& c) {
  if (c.send.buffer == in_place) return alltoall_in_place(ranks, c.receive);
  return alltoall_pairwise(ranks, c.send, c.receive);
}

Flow over_messages(Ranks ranks, const call::Reduce& c) {
  if (is_inter(ranks)) {
    if (c.root == null_process) return nothing(ranks);
    return inter::reduce(ranks, c.send, c.receive, c.what, c.root);
  }
  if (ranks.size() == 1) return take_alone(ranks, c.send, c.receive, c.what);
  return reduce_by(chosen(ranks, Collective::reduce, c.what, c.what.count), ranks, operand(c.send, c.receive),
                   c.receive, c.what, c.root);
}

Flow over_messages(Ranks ranks, const call::Allreduce& c) {
  if (is_inter(ranks)) return inter::allreduce(ranks, c.send, c.receive, c.what);
  if (ranks.size() == 1) return take_alone(ranks, c.send, c.receive, c.what);
  return allreduce_by(chosen(ranks, Collective::allreduce, c.what, c.what.count), ranks,
                      operand(c.send, c.receive), c.receive, c.what);
}

Flow over_messages(Ranks ranks, const call::ReduceScatter& c) {
  return reduce_scatter_any(ranks, c, c.counts);
}

Flow over_messages(Ranks ranks, const call::ReduceScatterBlock& c) {
  return reduce_scatter_any(ranks, c, Integers::same(c.what.count));
}

Flow over_messages(Ranks ranks, const call::Scan& c) {
  if (ranks.size() == 1) return take_alone(ranks, c.send, c.receive, c.what);
  return scan_doubling(ranks, operand(c.send, c.receive), c.receive, c.what);
}

Flow over_messages(Ranks ranks, const call::Exscan& c) {
  if (ranks.size() == 1) return nothing(ranks);
  return exscan_doubling(ranks, operand(c.send, c.receive), c.receive, c.what);
}

}  // namespace isthmus::coll
