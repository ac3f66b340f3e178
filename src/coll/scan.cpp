#include "coll/algorithms.hpp"
#include "coll/operands.hpp"

namespace isthmus::coll {
namespace {

/// Recursive doubling. Before the step of `distance`, a rank's run is the ranks that share all higher bits
/// with it; `run` is the value of the run up to its end, and what comes from a lower run belongs to the
/// prefix. `add_prefix` is told when `run.incoming()` holds the value of the run right below what it has
/// heard of.
template <class AddPrefix>
Result<> double_up(const Ranks& ranks, Accumulator& run, AddPrefix add_prefix) {
  for (int distance = 1; distance < ranks.size(); distance *= 2) {
    const int peer = ranks.rank() ^ distance;
    if (peer >= ranks.size()) continue;
    ISTHMUS_TRY(ranks.exchange(peer, run.value(), peer, run.incoming()));
    if (peer < ranks.rank()) {
      ISTHMUS_TRY(add_prefix());
      ISTHMUS_TRY(run.add_left());
    } else {
      ISTHMUS_TRY(run.add_right());
    }
  }
  return {};
}

}  // namespace

Result<> scan_doubling(const Ranks& ranks, const void* send, void* receive, const Reduction& what) {
  Accumulator run(send, nullptr, what);
  copy(elements(send, what), elements(receive, what));
  return double_up(ranks, run,
                   [&] { return what.op->reduce(run.incoming_buffer(), receive, what.count, *what.type); });
}

Result<> exscan_doubling(const Ranks& ranks, const void* send, void* receive, const Reduction& what) {
  Accumulator run(send, nullptr, what);
  bool first = true;
  return double_up(ranks, run, [&]() -> Result<> {
    if (!std::exchange(first, false))
      return what.op->reduce(run.incoming_buffer(), receive, what.count, *what.type);
    copy(run.incoming(), elements(receive, what));
    return {};
  });
}

}  // namespace isthmus::coll
