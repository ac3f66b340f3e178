#include <algorithm>

#include "coll/call/local.hpp"
#include "coll/messages/algorithms.hpp"

namespace isthmus::coll {
namespace {

template <class Send>
Flow scatter_all(Ranks ranks, Send send, Out receive, int root) {
  if (ranks.rank() != root) {
    co_await ranks.receive(root, whole(receive));
    co_return;
  }
  Batch batch(ranks);
  for (int i = 0; i < ranks.size(); ++i)
    if (i != root) batch.send(i, block(send, i));
  if (receive.buffer != in_place) copy(block(send, root), whole(receive));
  co_await batch;
}

}  // namespace

Flow scatter_linear(Ranks ranks, InV send, Out receive, int root) {
  return scatter_all(ranks, send, receive, root);
}

Flow scatter_linear(Ranks ranks, In send, Out receive, int root) {
  return scatter_all(ranks, send, receive, root);
}

Flow scatter_binomial(Ranks ranks, In send, Out receive, int root) {
  const int n = ranks.size();
  const int position = (ranks.rank() - root + n) % n;
  const std::uint64_t bytes = position == 0 ? block(send, 0).bytes : whole(receive).bytes;

  int reach = 1;
  while (reach < n && (position & reach) == 0)
    reach *= 2;
  const int blocks = std::min(reach, n - position);
  Bytes memory(bytes * static_cast<std::uint64_t>(blocks));
  if (position == 0) {
    for (int i = 0; i < n; ++i)
      pack(block(send, (i + root) % n), memory.data() + bytes * static_cast<std::uint64_t>(i));
  } else {
    co_await ranks.receive((position - reach + root) % n,
                           Payload::of(memory.data(), bytes * static_cast<std::uint64_t>(blocks)));
  }
  for (int distance = reach / 2; distance > 0; distance /= 2) {
    const int child = position + distance;
    if (child >= n) continue;
    const int count = std::min(distance, n - child);
    co_await ranks.send((child + root) % n,
                        Payload::of(memory.data() + bytes * static_cast<std::uint64_t>(distance),
                                    bytes * static_cast<std::uint64_t>(count)));
  }
  if (receive.buffer != in_place) unpack(memory.data(), whole(receive));
}

}  // namespace isthmus::coll
