#include <algorithm>

#include "coll/call/local.hpp"
#include "coll/messages/algorithms.hpp"

namespace isthmus::coll {
namespace {

template <class Receive>
Flow gather_all(Ranks ranks, In send, Receive receive, int root) {
  if (ranks.rank() != root) {
    co_await ranks.send(root, whole(send));
    co_return;
  }
  Batch batch(ranks);
  for (int i = 0; i < ranks.size(); ++i)
    if (i != root) batch.receive(i, block(receive, i));
  if (send.buffer != in_place) copy(whole(send), block(receive, root));
  co_await batch;
}

}  // namespace

Flow gather_linear(Ranks ranks, In send, OutV receive, int root) {
  return gather_all(ranks, send, receive, root);
}

Flow gather_linear(Ranks ranks, In send, Out receive, int root) {
  return gather_all(ranks, send, receive, root);
}

Flow gather_binomial(Ranks ranks, In send, Out receive, int root) {
  const int n = ranks.size();
  const int position = (ranks.rank() - root + n) % n;
  const bool mine_in_place = position == 0 && send.buffer == in_place;
  const Payload mine = mine_in_place ? block(receive, root) : whole(send);
  const std::uint64_t bytes = mine.bytes;

  // The subtree of `position` is [position, position + reach), as packed blocks.
  int reach = 1;
  while (reach < n && (position & reach) == 0)
    reach *= 2;
  const int blocks = std::min(reach, n - position);
  Bytes memory(bytes * static_cast<std::uint64_t>(blocks));
  pack(mine, memory.data());
  for (int distance = 1; distance < reach && position + distance < n; distance *= 2) {
    const int child = position + distance;
    const int count = std::min(distance, n - child);
    co_await ranks.receive((child + root) % n,
                           Payload::of(memory.data() + bytes * static_cast<std::uint64_t>(distance),
                                       bytes * static_cast<std::uint64_t>(count)));
  }
  if (position != 0) {
    co_await ranks.send((position - reach + root) % n,
                        Payload::of(memory.data(), bytes * static_cast<std::uint64_t>(blocks)));
    co_return;
  }
  for (int i = mine_in_place ? 1 : 0; i < n; ++i)
    unpack(memory.data() + bytes * static_cast<std::uint64_t>(i), block(receive, (i + root) % n));
}

}  // namespace isthmus::coll
