#include "coll/messages.hpp"

#include "coll/algorithms.hpp"

namespace isthmus::coll {

Result<> bcast_by(Algorithm algorithm, const Ranks& ranks, const Payload& data, int root) {
  if (algorithm == Algorithm::scatter_allgather) return bcast_scatter_allgather(ranks, data, root);
  return bcast_binomial(ranks, data, root);
}

Result<> allgather_by(Algorithm algorithm, const Ranks& ranks, const Out& receive) {
  if (algorithm == Algorithm::ring) return allgather_ring(ranks, receive);
  if (algorithm == Algorithm::doubling) return allgather_doubling(ranks, receive);
  return allgather_bruck(ranks, receive);
}

Result<> allgather_by(Algorithm algorithm, const Ranks& ranks, const OutV& receive) {
  if (algorithm == Algorithm::ring) return allgather_ring(ranks, receive);
  return allgather_bruck(ranks, receive);
}

Result<> reduce_by(Algorithm algorithm, const Ranks& ranks, const void* send, void* receive,
                   const Reduction& what, int root) {
  if (algorithm == Algorithm::ring) return reduce_ring(ranks, send, receive, what, root);
  return reduce_binomial(ranks, send, receive, what, root);
}

Result<> allreduce_by(Algorithm algorithm, const Ranks& ranks, const void* send, void* receive,
                      const Reduction& what) {
  if (algorithm == Algorithm::halving) return allreduce_halving(ranks, send, receive, what);
  if (algorithm == Algorithm::ring) return allreduce_ring(ranks, send, receive, what);
  return allreduce_doubling(ranks, send, receive, what);
}

}  // namespace isthmus::coll
