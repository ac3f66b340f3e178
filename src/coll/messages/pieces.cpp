#include "coll/messages/pieces.hpp"

namespace isthmus::coll {

Flow reduce_pieces(Ranks ranks, void* sums, const Shares& shares, Reduction what) {
  const int n = ranks.size();
  const int right = (ranks.rank() + 1) % n;
  const int left = (ranks.rank() - 1 + n) % n;
  Elements space(shares.size(0), *what.type);
  // Piece i starts at rank i + 1 and ends, with everybody's operand in it, at rank i.
  for (int step = 1; step < n; ++step) {
    const int out = (ranks.rank() - step + n) % n;
    const int in = (ranks.rank() - step - 1 + 2 * n) % n;
    const Payload leaving = elements(sums, shares.begin(out), shares.size(out), *what.type);
    co_await ranks.exchange(right, leaving, left, elements(space.buffer(), 0, shares.size(in), *what.type));
    co_await what.op->reduce(space.buffer(), element(sums, shares.begin(in), *what.type), shares.size(in),
                             *what.type);
  }
}

}  // namespace isthmus::coll
