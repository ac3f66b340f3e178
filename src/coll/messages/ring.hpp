#pragma once

#include "coll/flow/flow.hpp"

namespace isthmus::coll {

/// Everybody's block to everybody, from neighbour to neighbour in n - 1 steps. `block(i)` is the place of the
/// block that rank `i + shift` begins with.
template <class Block>
Flow ring(Ranks ranks, int shift, Block block) {
  const int n = ranks.size();
  const int position = (ranks.rank() - shift + n) % n;
  const int right = (ranks.rank() + 1) % n;
  const int left = (ranks.rank() - 1 + n) % n;
  for (int step = 0; step < n - 1; ++step) {
    const int out = (position - step + n) % n;
    const int in = (position - step - 1 + n) % n;
    co_await ranks.exchange(right, block(out), left, block(in));
  }
}

}  // namespace isthmus::coll
