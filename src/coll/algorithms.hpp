#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/coll.hpp"
#include "coll/ranks.hpp"
#include "p2p/message.hpp"

/// The algorithms over point-to-point messages. They work for any number of ranks, any count and any datatype
/// unless said otherwise; `coll.cpp` asks `select` which to take.
///
/// Sources: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in
/// MPICH", IJHPCA 19 (2005); J. Bruck et al., "Efficient Algorithms for All-to-All Communications in
/// Multiport Message-Passing Systems", IEEE TPDS 8 (1997); D. Hensgen, R. Finkel, U. Manber, "Two Algorithms
/// for Barrier Synchronization", IJPP 17 (1988) for the dissemination barrier.
namespace isthmus::coll {

Result<> barrier_dissemination(const Ranks& ranks);

Result<> bcast_binomial(const Ranks& ranks, const Payload& data, int root);
/// Scatters pieces down a binomial tree and collects them in a ring: each byte leaves each rank about twice.
Result<> bcast_scatter_allgather(const Ranks& ranks, const Payload& data, int root);

/// `send.buffer` may be `in_place` at the root, as in `gather`.
Result<> gather_linear(const Ranks& ranks, const In& send, const OutV& receive, int root);
Result<> gather_linear(const Ranks& ranks, const In& send, const Out& receive, int root);
Result<> gather_binomial(const Ranks& ranks, const In& send, const Out& receive, int root);
Result<> scatter_linear(const Ranks& ranks, const InV& send, const Out& receive, int root);
Result<> scatter_linear(const Ranks& ranks, const In& send, const Out& receive, int root);
Result<> scatter_binomial(const Ranks& ranks, const In& send, const Out& receive, int root);

// Own blocks have been put in their place before.
/// Only for a power of two of ranks.
Result<> allgather_doubling(const Ranks& ranks, const Out& receive);
Result<> allgather_ring(const Ranks& ranks, const Out& receive);
Result<> allgather_ring(const Ranks& ranks, const OutV& receive);
Result<> allgather_bruck(const Ranks& ranks, const Out& receive);
Result<> allgather_bruck(const Ranks& ranks, const OutV& receive);

/// Not in place. Blocks travel together, log2(ranks) messages a rank.
Result<> alltoall_bruck(const Ranks& ranks, const In& send, const Out& receive);
/// Every pair exchanges its blocks directly, several pairs at a time. Blocks without bytes send no message.
Result<> alltoall_pairwise(const Ranks& ranks, const In& send, const Out& receive);
Result<> alltoall_pairwise(const Ranks& ranks, const InV& send, const OutV& receive);
Result<> alltoall_pairwise(const Ranks& ranks, const InW& send, const OutW& receive);
Result<> alltoall_in_place(const Ranks& ranks, const Out& receive);
Result<> alltoall_in_place(const Ranks& ranks, const OutV& receive);
Result<> alltoall_in_place(const Ranks& ranks, const OutW& receive);

// Reductions: `send` is never `in_place` but always the operand, which may be the receive buffer itself.
Result<> reduce_binomial(const Ranks& ranks, const void* send, void* receive, const Reduction& what,
                         int root);
/// For commutative operations: pieces are reduced in a ring and then gathered.
Result<> reduce_ring(const Ranks& ranks, const void* send, void* receive, const Reduction& what, int root);

Result<> allreduce_doubling(const Ranks& ranks, const void* send, void* receive, const Reduction& what);
/// For commutative operations: recursive halving, then doubling (Rabenseifner).
Result<> allreduce_halving(const Ranks& ranks, const void* send, void* receive, const Reduction& what);
/// For commutative operations.
Result<> allreduce_ring(const Ranks& ranks, const void* send, void* receive, const Reduction& what);

/// Reduces to rank 0, which scatters the result.
Result<> reduce_scatter_by_root(const Ranks& ranks, const void* send, void* receive, const Integers& counts,
                                const Reduction& what);
/// For commutative operations: every rank gets the operands of its own piece from all others.
Result<> reduce_scatter_pairwise(const Ranks& ranks, const void* send, void* receive, const Integers& counts,
                                 const Reduction& what);

Result<> scan_doubling(const Ranks& ranks, const void* send, void* receive, const Reduction& what);
/// `receive` of rank 0 is left as it is.
Result<> exscan_doubling(const Ranks& ranks, const void* send, void* receive, const Reduction& what);

}  // namespace isthmus::coll
