#include <utility>

#include "coll/call/operands.hpp"
#include "coll/messages/algorithms.hpp"

namespace isthmus::coll {
namespace {

/// Recursive doubling. Before the step of `distance`, a rank's run is the ranks that share all higher bits
/// with it; `run` is the value of the run up to its end, and what comes from a lower run belongs to the
/// prefix. `add_prefix` is told when `run.incoming()` holds the value of the run right below what it has
/// heard of.
template <class AddPrefix>
Flow double_up(Ranks ranks, Accumulator& run, AddPrefix add_prefix) {
  for (int distance = 1; distance < ranks.size(); distance *= 2) {
    const int peer = ranks.rank() ^ distance;
    if (peer >= ranks.size()) continue;
    co_await ranks.exchange(peer, run.value(), peer, run.incoming());
    if (peer < ranks.rank()) {
      co_await add_prefix();
      co_await run.add_left();
    } else {
      co_await run.add_right();
    }
  }
}

}  // namespace

Flow scan_doubling(Ranks ranks, const void* send, void* receive, Reduction what) {
  Accumulator run(send, nullptr, what);
  copy(elements(send, what), elements(receive, what));
  const auto add = [&] { return what.op->reduce(run.incoming_buffer(), receive, what.count, *what.type); };
  co_await double_up(ranks, run, add);
}

Flow exscan_doubling(Ranks ranks, const void* send, void* receive, Reduction what) {
  Accumulator run(send, nullptr, what);
  bool first = true;
  const auto add = [&]() -> Result<> {
    if (!std::exchange(first, false))
      return what.op->reduce(run.incoming_buffer(), receive, what.count, *what.type);
    copy(run.incoming(), elements(receive, what));
    return {};
  };
  co_await double_up(ranks, run, add);
}

}  // namespace isthmus::coll
