#include <algorithm>

#include "coll/call/local.hpp"
#include "coll/messages/algorithms.hpp"

namespace isthmus::coll {
namespace {

/// Partners that a rank exchanges with at the same time: enough that one slow partner holds up little, few
/// enough that the messages of all ranks fit into rings and caches.
constexpr int window = 8;

/// In step k a rank sends to the rank k above it and receives from the rank k below.
template <class Send, class Receive>
Flow pairwise(Ranks ranks, Send send, Receive receive) {
  const int n = ranks.size();
  const int rank = ranks.rank();
  // In an intercommunicator there is a block for the rank of the same number too, but it is no own one, and
  // the steps must cover the larger group on both sides.
  const bool inter = ranks.comm().is_inter();
  const int steps = inter ? std::max(ranks.comm().size(), n) : n;
  if (!inter) copy(block(send, rank), block(receive, rank));
  for (int first = inter ? 0 : 1; first < steps; first += window) {
    Batch batch(ranks);
    const int last = std::min(first + window, steps);
    for (int step = first; step < last; ++step) {
      const int from = (rank - step + steps) % steps;
      if (from >= n) continue;
      if (const Payload in = block(receive, from); in.bytes != 0) batch.receive(from, in);
    }
    for (int step = first; step < last; ++step) {
      const int to = (rank + step) % steps;
      if (to >= n) continue;
      if (const Payload out = block(send, to); out.bytes != 0) batch.send(to, out);
    }
    co_await batch;
  }
}

/// In step k ranks whose numbers add up to k (modulo their number) exchange: each pair meets in one step.
template <class Receive>
Flow pairs_in_place(Ranks ranks, Receive receive) {
  const int n = ranks.size();
  for (int step = 0; step < n; ++step) {
    const int partner = (step - ranks.rank() + n) % n;
    const Payload mine = block(receive, partner);
    if (partner == ranks.rank() || mine.bytes == 0) continue;
    Bytes leaving(mine.bytes);
    pack(mine, leaving.data());
    co_await ranks.exchange(partner, Payload::of(leaving.data(), mine.bytes), partner, mine);
  }
}

}  // namespace

Flow alltoall_pairwise(Ranks ranks, In send, Out receive) {
  return pairwise(ranks, send, receive);
}
Flow alltoall_pairwise(Ranks ranks, InV send, OutV receive) {
  return pairwise(ranks, send, receive);
}
Flow alltoall_pairwise(Ranks ranks, InW send, OutW receive) {
  return pairwise(ranks, send, receive);
}

Flow alltoall_in_place(Ranks ranks, Out receive) {
  return pairs_in_place(ranks, receive);
}
Flow alltoall_in_place(Ranks ranks, OutV receive) {
  return pairs_in_place(ranks, receive);
}
Flow alltoall_in_place(Ranks ranks, OutW receive) {
  return pairs_in_place(ranks, receive);
}

Flow alltoall_bruck(Ranks ranks, In send, Out receive) {
  const int n = ranks.size();
  const int rank = ranks.rank();
  const std::uint64_t bytes = block(send, 0).bytes;
  const auto size = bytes * static_cast<std::uint64_t>(n);
  Bytes memory(size);
  Bytes leaving(size / 2 + bytes);
  Bytes arriving(size / 2 + bytes);
  const auto held = [&](int i) { return memory.data() + bytes * static_cast<std::uint64_t>(i); };

  // Block i is the one that has i ranks to go; it moves 2^k ranks in the step of each bit k of i.
  for (int i = 0; i < n; ++i)
    pack(block(send, (rank + i) % n), held(i));
  for (int distance = 1; distance < n; distance *= 2) {
    std::uint64_t position = 0;
    for (int i = distance; i < n; ++i) {
      if ((i & distance) == 0) continue;
      pack(Payload::of(held(i), bytes), leaving.data() + position);
      position += bytes;
    }
    co_await ranks.exchange((rank + distance) % n, Payload::of(leaving.data(), position),
                            (rank - distance + n) % n, Payload::of(arriving.data(), position));
    position = 0;
    for (int i = distance; i < n; ++i) {
      if ((i & distance) == 0) continue;
      pack(Payload::of(arriving.data() + position, bytes), held(i));
      position += bytes;
    }
  }
  for (int i = 0; i < n; ++i)
    unpack(held(i), block(receive, (rank - i + n) % n));
}

}  // namespace isthmus::coll
