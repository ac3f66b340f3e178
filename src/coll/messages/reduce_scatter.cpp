#include <vector>

#include "coll/call/operands.hpp"
#include "coll/messages/algorithms.hpp"

namespace isthmus::coll {
namespace {

/// Where each rank's piece begins; the last entry is the number of all elements.
std::vector<std::int64_t> offsets(Integers counts, int n) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(n) + 1, 0);
  for (int i = 0; i < n; ++i)
    offsets[i + 1] = offsets[i] + counts[i];
  return offsets;
}

}  // namespace

Flow reduce_scatter_by_root(Ranks ranks, const void* send, void* receive, Integers counts, Reduction what) {
  const std::vector<std::int64_t> begin = offsets(counts, ranks.size());
  const Reduction all{begin.back(), what.type, what.op};
  Elements sums(ranks.rank() == 0 ? all.count : 0, *what.type);
  co_await reduce_binomial(ranks, send, sums.buffer(), all, 0);
  const InV all_sums{sums.buffer(), counts, begin.data(), what.type};
  co_await scatter_linear(ranks, all_sums, Out{receive, counts[ranks.rank()], what.type}, 0);
}

Flow reduce_scatter_pairwise(Ranks ranks, const void* send, void* receive, Integers counts, Reduction what) {
  const int n = ranks.size();
  const int rank = ranks.rank();
  const Datatype& type = *what.type;
  const std::vector<std::int64_t> begin = offsets(counts, n);
  const auto piece = [&](int i) { return elements(send, begin[i], counts[i], type); };
  // The result may lie in the operand (MPI_IN_PLACE), which others still need.
  const Reduction mine{counts[rank], &type, what.op};
  Accumulator sum(element(send, begin[rank], type), nullptr, mine);
  for (int step = 1; step < n; ++step) {
    const int to = (rank + step) % n;
    const int from = (rank - step + n) % n;
    co_await ranks.exchange(to, piece(to), from, sum.incoming());
    co_await sum.add_left();
  }
  sum.finish(receive);
}

}  // namespace isthmus::coll
