#include "coll/algorithms.hpp"
#include "coll/operands.hpp"
#include "coll/pieces.hpp"

namespace isthmus::coll {

Result<> reduce_binomial(const Ranks& ranks, const void* send, void* receive, const Reduction& what,
                         int root) {
  const int n = ranks.size();
  // Subtrees are runs of ranks, in order only if the tree begins at rank 0.
  const int top = what.op->commutative() ? root : 0;
  const int position = (ranks.rank() - top + n) % n;
  const auto rank_at = [&](int p) { return (p + top) % n; };
  if ((position & 1) != 0 && ranks.rank() != root)  // a leaf needs no space
    return ranks.send(rank_at(position - 1), elements(send, what));

  Accumulator sum(send, ranks.rank() == root ? receive : nullptr, what);
  int distance = 1;
  for (; distance < n && (position & distance) == 0; distance *= 2) {
    const int child = position + distance;
    if (child >= n) continue;
    ISTHMUS_TRY(ranks.receive(rank_at(child), sum.incoming()));
    ISTHMUS_TRY(sum.add_right());
  }
  if (position != 0) ISTHMUS_TRY(ranks.send(rank_at(position - distance), sum.value()));
  if (root != top) {
    if (ranks.rank() == top) return ranks.send(root, sum.value());
    if (ranks.rank() == root) return ranks.receive(top, elements(receive, what));
  } else if (ranks.rank() == root) {
    sum.finish(receive);
  }
  return {};
}

Result<> reduce_ring(const Ranks& ranks, const void* send, void* receive, const Reduction& what, int root) {
  const int n = ranks.size();
  const Shares shares(what.count, n);
  Elements space(what.count, *what.type);
  void* sums = ranks.rank() == root ? receive : space.buffer();
  copy(elements(send, what), elements(sums, what));
  ISTHMUS_TRY(reduce_pieces(ranks, sums, shares, what));
  const auto piece = [&](int i) { return elements(sums, shares.begin(i), shares.size(i), *what.type); };
  if (ranks.rank() != root) return ranks.send(root, piece(ranks.rank()));
  Batch batch(ranks);
  for (int i = 0; i < n; ++i)
    if (i != root) batch.receive(i, piece(i));
  return batch.wait();
}

}  // namespace isthmus::coll
