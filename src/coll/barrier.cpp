#include "coll/algorithms.hpp"

namespace isthmus::coll {

Result<> barrier_dissemination(const Ranks& ranks) {
  const int n = ranks.size();
  const Payload nothing{};
  for (int distance = 1; distance < n; distance *= 2) {
    const int to = (ranks.rank() + distance) % n;
    const int from = (ranks.rank() - distance + n) % n;
    ISTHMUS_TRY(ranks.exchange(to, nothing, from, nothing));
  }
  return {};
}

}  // namespace isthmus::coll
