#include <algorithm>
#include <vector>

#include "coll/call/local.hpp"
#include "coll/messages/algorithms.hpp"
#include "coll/messages/ring.hpp"

namespace isthmus::coll {
namespace {

/// In step k a rank holds the blocks of the 2^k ranks from its own on, packed in that order, and gets the
/// next ones from the rank 2^k further.
template <class Receive>
Flow bruck(Ranks ranks, Receive receive) {
  const int n = ranks.size();
  const auto owner = [&](int i) { return (ranks.rank() + i) % n; };
  std::vector<std::uint64_t> offsets(static_cast<std::size_t>(n) + 1, 0);
  for (int i = 0; i < n; ++i)
    offsets[i + 1] = offsets[i] + block(receive, owner(i)).bytes;
  Bytes memory(offsets[n]);
  pack(block(receive, ranks.rank()), memory.data());
  for (int held = 1; held < n; held *= 2) {
    const int count = std::min(held, n - held);
    // The peer's packed order starts at its own block: what it sends are the blocks of owner(held) and up.
    co_await ranks.exchange(
        (ranks.rank() - held + n) % n, Payload::of(memory.data(), offsets[count]), owner(held),
        Payload::of(memory.data() + offsets[held], offsets[held + count] - offsets[held]));
  }
  for (int i = 1; i < n; ++i)
    unpack(memory.data() + offsets[i], block(receive, owner(i)));
}

}  // namespace

Flow allgather_doubling(Ranks ranks, Out receive) {
  const auto range = [&](int first, int blocks) {
    return Payload::of(element(receive.buffer, first * receive.count, *receive.type), blocks * receive.count,
                       *receive.type);
  };
  for (int held = 1; held < ranks.size(); held *= 2) {
    const int first = ranks.rank() & ~(held - 1);
    const int peer = ranks.rank() ^ held;
    co_await ranks.exchange(peer, range(first, held), peer, range(first ^ held, held));
  }
}

Flow allgather_ring(Ranks ranks, Out receive) {
  return ring(ranks, 0, [receive](int i) { return block(receive, i); });
}

Flow allgather_ring(Ranks ranks, OutV receive) {
  return ring(ranks, 0, [receive](int i) { return block(receive, i); });
}

Flow allgather_bruck(Ranks ranks, Out receive) {
  return bruck(ranks, receive);
}

Flow allgather_bruck(Ranks ranks, OutV receive) {
  return bruck(ranks, receive);
}

}  // namespace isthmus::coll
