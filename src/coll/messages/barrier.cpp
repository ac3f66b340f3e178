#include "coll/messages/algorithms.hpp"

namespace isthmus::coll {

Flow barrier_dissemination(Ranks ranks) {
  const int n = ranks.size();
  const Payload nothing{};
  for (int distance = 1; distance < n; distance *= 2) {
    const int to = (ranks.rank() + distance) % n;
    const int from = (ranks.rank() - distance + n) % n;
    co_await ranks.exchange(to, nothing, from, nothing);
  }
}

}  // namespace isthmus::coll
