#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/local.hpp"

namespace isthmus::coll {
namespace {

template <class Send>
Result<> linear(const Ranks& ranks, const Send& send, const Out& receive, int root) {
  if (ranks.rank() != root) return ranks.receive(root, whole(receive));
  Batch batch(ranks);
  for (int i = 0; i < ranks.size(); ++i)
    if (i != root) batch.send(i, block(send, i));
  if (receive.buffer != in_place) copy(block(send, root), whole(receive));
  return batch.wait();
}

}  // namespace

Result<> scatter_linear(const Ranks& ranks, const InV& send, const Out& receive, int root) {
  return linear(ranks, send, receive, root);
}

Result<> scatter_linear(const Ranks& ranks, const In& send, const Out& receive, int root) {
  return linear(ranks, send, receive, root);
}

Result<> scatter_binomial(const Ranks& ranks, const In& send, const Out& receive, int root) {
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
    ISTHMUS_TRY(ranks.receive((position - reach + root) % n,
                              Payload::of(memory.data(), bytes * static_cast<std::uint64_t>(blocks))));
  }
  for (int distance = reach / 2; distance > 0; distance /= 2) {
    const int child = position + distance;
    if (child >= n) continue;
    const int count = std::min(distance, n - child);
    ISTHMUS_TRY(ranks.send((child + root) % n,
                           Payload::of(memory.data() + bytes * static_cast<std::uint64_t>(distance),
                                       bytes * static_cast<std::uint64_t>(count))));
  }
  if (receive.buffer != in_place) unpack(memory.data(), whole(receive));
  return {};
}

}  // namespace isthmus::coll
