#include "coll/call/operands.hpp"
#include "coll/messages/algorithms.hpp"
#include "coll/messages/pieces.hpp"

namespace isthmus::coll {

Flow reduce_binomial(Ranks ranks, const void* send, void* receive, Reduction what, int root) {
  const int n = ranks.size();
  // Subtrees are runs of ranks, in order only if the tree begins at rank 0.
  const int top = what.op->commutative() ? root : 0;
  const int position = (ranks.rank() - top + n) % n;
  const auto rank_at = [&](int p) { return (p + top) % n; };
  if ((position & 1) != 0 && ranks.rank() != root) {  // a leaf needs no space
    co_await ranks.send(rank_at(position - 1), elements(send, what));
    co_return;
  }

  Accumulator sum(send, ranks.rank() == root ? receive : nullptr, what);
  int distance = 1;
  for (; distance < n && (position & distance) == 0; distance *= 2) {
    const int child = position + distance;
    if (child >= n) continue;
    co_await ranks.receive(rank_at(child), sum.incoming());
    co_await sum.add_right();
  }
  if (position != 0) co_await ranks.send(rank_at(position - distance), sum.value());
  if (root != top) {
    if (ranks.rank() == top) {
      co_await ranks.send(root, sum.value());
      co_return;
    }
    if (ranks.rank() == root) {
      co_await ranks.receive(top, elements(receive, what));
      co_return;
    }
  } else if (ranks.rank() == root) {
    sum.finish(receive);
  }
}

Flow reduce_ring(Ranks ranks, const void* send, void* receive, Reduction what, int root) {
  const int n = ranks.size();
  const Shares shares(what.count, n);
  Elements space(what.count, *what.type);
  void* sums = ranks.rank() == root ? receive : space.buffer();
  copy(elements(send, what), elements(sums, what));
  co_await reduce_pieces(ranks, sums, shares, what);
  const auto piece = [&](int i) { return elements(sums, shares.begin(i), shares.size(i), *what.type); };
  if (ranks.rank() != root) {
    co_await ranks.send(root, piece(ranks.rank()));
    co_return;
  }
  Batch batch(ranks);
  for (int i = 0; i < n; ++i)
    if (i != root) batch.receive(i, piece(i));
  co_await batch;
}

}  // namespace isthmus::coll
