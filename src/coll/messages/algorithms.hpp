#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/call/coll.hpp"
#include "coll/flow/flow.hpp"
#include "p2p/message/message.hpp"

/// The algorithms over point-to-point messages. They work for any number of ranks, any count and any datatype
/// unless said otherwise; `coll.cpp` asks `select` which to take.
///
/// Sources: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in
/// MPICH", IJHPCA 19 (2005); J. Bruck et al., "Efficient Algorithms for All-to-All Communications in
/// Multiport Message-Passing Systems", IEEE TPDS 8 (1997); D. Hensgen, R. Finkel, U. Manber, "Two Algorithms
/// for Barrier Synchronization", IJPP 17 (1988) for the dissemination barrier.
namespace isthmus::coll {

Flow barrier_dissemination(Ranks ranks);

Flow bcast_binomial(Ranks ranks, Payload data, int root);
/// Scatters pieces down a binomial tree and collects them in a ring: each byte leaves each rank about twice.
Flow bcast_scatter_allgather(Ranks ranks, Payload data, int root);

/// `send.buffer` may be `in_place` at the root, as in `gather`.
Flow gather_linear(Ranks ranks, In send, OutV receive, int root);
Flow gather_linear(Ranks ranks, In send, Out receive, int root);
Flow gather_binomial(Ranks ranks, In send, Out receive, int root);
Flow scatter_linear(Ranks ranks, InV send, Out receive, int root);
Flow scatter_linear(Ranks ranks, In send, Out receive, int root);
Flow scatter_binomial(Ranks ranks, In send, Out receive, int root);

// Own blocks have been put in their place before.
/// Only for a power of two of ranks.
Flow allgather_doubling(Ranks ranks, Out receive);
Flow allgather_ring(Ranks ranks, Out receive);
Flow allgather_ring(Ranks ranks, OutV receive);
Flow allgather_bruck(Ranks ranks, Out receive);
Flow allgather_bruck(Ranks ranks, OutV receive);

/// Not in place. Blocks travel together, log2(ranks) messages a rank.
Flow alltoall_bruck(Ranks ranks, In send, Out receive);
/// Every pair exchanges its blocks directly, several pairs at a time. Blocks without bytes send no message.
Flow alltoall_pairwise(Ranks ranks, In send, Out receive);
Flow alltoall_pairwise(Ranks ranks, InV send, OutV receive);
Flow alltoall_pairwise(Ranks ranks, InW send, OutW receive);
Flow alltoall_in_place(Ranks ranks, Out receive);
Flow alltoall_in_place(Ranks ranks, OutV receive);
Flow alltoall_in_place(Ranks ranks, OutW receive);

// Reductions: `send` is never `in_place` but always the operand, which may be the receive buffer itself.
Flow reduce_binomial(Ranks ranks, const void* send, void* receive, Reduction what, int root);
/// For commutative operations: pieces are reduced in a ring and then gathered.
Flow reduce_ring(Ranks ranks, const void* send, void* receive, Reduction what, int root);

Flow allreduce_doubling(Ranks ranks, const void* send, void* receive, Reduction what);
/// For commutative operations: recursive halving, then doubling (Rabenseifner).
Flow allreduce_halving(Ranks ranks, const void* send, void* receive, Reduction what);
/// For commutative operations.
Flow allreduce_ring(Ranks ranks, const void* send, void* receive, Reduction what);

/// Reduces to rank 0, which scatters the result.
Flow reduce_scatter_by_root(Ranks ranks, const void* send, void* receive, Integers counts, Reduction what);
/// For commutative operations: every rank gets the operands of its own piece from all others.
Flow reduce_scatter_pairwise(Ranks ranks, const void* send, void* receive, Integers counts, Reduction what);

Flow scan_doubling(Ranks ranks, const void* send, void* receive, Reduction what);
/// `receive` of rank 0 is left as it is.
Flow exscan_doubling(Ranks ranks, const void* send, void* receive, Reduction what);

}  // namespace isthmus::coll
