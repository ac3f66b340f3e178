#include <bit>

#include "coll/call/operands.hpp"
#include "coll/messages/algorithms.hpp"
#include "coll/messages/pieces.hpp"
#include "coll/messages/ring.hpp"

namespace isthmus::coll {
namespace {

/// The largest power of two of ranks, to which the first few pairs of neighbours contribute one rank each: in
/// the pair, the even one hands its operand to the odd one and waits for the result.
class PowerOfTwo {
 public:
  PowerOfTwo(int rank, int n)
      : size_(static_cast<int>(std::bit_floor(static_cast<unsigned>(n)))), pairs_(n - size_), rank_(rank) {}

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool in_pair() const { return rank_ < 2 * pairs_; }
  [[nodiscard]] bool takes_part() const { return !in_pair() || rank_ % 2 == 1; }
  [[nodiscard]] int partner() const { return rank_ ^ 1; }
  /// This rank among those that take part; order is kept, and positions stand for runs of ranks.
  [[nodiscard]] int position() const { return in_pair() ? rank_ / 2 : rank_ - pairs_; }
  [[nodiscard]] int rank_at(int position) const {
    return position < pairs_ ? 2 * position + 1 : position + pairs_;
  }

 private:
  int size_;
  int pairs_;
  int rank_;
};

/// value = value OP what the peers of `position ^ distance` have, for all distances.
Flow double_up(Ranks ranks, PowerOfTwo group, Accumulator& sum) {
  for (int distance = 1; distance < group.size(); distance *= 2) {
    const int other = group.position() ^ distance;
    const int peer = group.rank_at(other);
    co_await ranks.exchange(peer, sum.value(), peer, sum.incoming());
    if (other < group.position())
      co_await sum.add_left();
    else
      co_await sum.add_right();
  }
}

/// Recursive halving, then doubling, of the pieces of `sums` that `shares` names.
Flow halve_and_double(Ranks ranks, PowerOfTwo group, void* sums, Reduction what) {
  const Datatype& type = *what.type;
  const Shares shares(what.count, group.size());
  const auto range = [&](int first, int last) {
    return elements(sums, shares.begin(first), shares.begin(last) - shares.begin(first), type);
  };
  Elements space(shares.begin(group.size() / 2), type);  // the first half is the larger one
  int first = 0;
  int last = group.size();
  for (int distance = group.size() / 2; distance > 0; distance /= 2) {
    const int peer = group.rank_at(group.position() ^ distance);
    const int middle = first + distance;
    const bool upper = (group.position() & distance) != 0;
    const int keep_first = upper ? middle : first;
    const int keep_last = upper ? last : middle;
    const std::int64_t kept = shares.begin(keep_last) - shares.begin(keep_first);
    co_await ranks.exchange(peer, upper ? range(first, middle) : range(middle, last), peer,
                            elements(space.buffer(), 0, kept, type));
    co_await what.op->reduce(space.buffer(), element(sums, shares.begin(keep_first), type), kept, type);
    first = keep_first;
    last = keep_last;
  }
  for (int distance = 1; distance < group.size(); distance *= 2) {
    const int mine = group.position() & ~(distance - 1);
    const int theirs = mine ^ distance;
    const int peer = group.rank_at(group.position() ^ distance);
    co_await ranks.exchange(peer, range(mine, mine + distance), peer, range(theirs, theirs + distance));
  }
}

}  // namespace

Flow allreduce_doubling(Ranks ranks, const void* send, void* receive, Reduction what) {
  const PowerOfTwo group(ranks.rank(), ranks.size());
  if (!group.takes_part()) {
    co_await ranks.send(group.partner(), elements(send, what));
    co_await ranks.receive(group.partner(), elements(receive, what));
    co_return;
  }
  Accumulator sum(send, receive, what);
  if (group.in_pair()) {
    co_await ranks.receive(group.partner(), sum.incoming());
    co_await sum.add_left();
  }
  co_await double_up(ranks, group, sum);
  if (group.in_pair()) co_await ranks.send(group.partner(), sum.value());
  sum.finish(receive);
}

Flow allreduce_halving(Ranks ranks, const void* send, void* receive, Reduction what) {
  const PowerOfTwo group(ranks.rank(), ranks.size());
  const Payload result = elements(receive, what);
  if (!group.takes_part()) {
    co_await ranks.send(group.partner(), elements(send, what));
    co_await ranks.receive(group.partner(), result);
    co_return;
  }
  copy(elements(send, what), result);
  if (group.in_pair()) {
    Elements space(what.count, *what.type);
    co_await ranks.receive(group.partner(), elements(space.buffer(), what));
    co_await what.op->reduce(space.buffer(), receive, what.count, *what.type);
  }
  co_await halve_and_double(ranks, group, receive, what);
  if (group.in_pair()) {
    co_await ranks.send(group.partner(), result);
    co_return;
  }
}

Flow allreduce_ring(Ranks ranks, const void* send, void* receive, Reduction what) {
  const Shares shares(what.count, ranks.size());
  copy(elements(send, what), elements(receive, what));
  co_await reduce_pieces(ranks, receive, shares, what);
  const auto share = [&](int i) { return elements(receive, shares.begin(i), shares.size(i), *what.type); };
  co_await ring(ranks, 0, share);
}

}  // namespace isthmus::coll
