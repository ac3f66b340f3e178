#include <algorithm>

#include "coll/call/local.hpp"
#include "coll/messages/algorithms.hpp"
#include "coll/messages/ring.hpp"

namespace isthmus::coll {
namespace {

/// Piece `i` of `n` of a block of bytes; the last ones may be short or empty.
class Pieces {
 public:
  Pieces(std::byte* data, std::uint64_t bytes, int n)
      : data_(data),
        bytes_(bytes),
        piece_((bytes + static_cast<unsigned>(n) - 1) / static_cast<unsigned>(n)) {}

  [[nodiscard]] Payload range(int first, int last) const {
    const std::uint64_t begin = std::min(bytes_, static_cast<std::uint64_t>(first) * piece_);
    const std::uint64_t end = std::min(bytes_, static_cast<std::uint64_t>(last) * piece_);
    return Payload::of(data_ + begin, end - begin);
  }

 private:
  std::byte* data_;
  std::uint64_t bytes_;
  std::uint64_t piece_;
};

/// The parent's distance in a binomial tree in which rank 0 is the root: the lowest set bit.
int first_distance(int position, int n) {
  int distance = 1;
  while (distance < n && (position & distance) == 0)
    distance *= 2;
  return distance;
}

}  // namespace

Flow bcast_binomial(Ranks ranks, Payload data, int root) {
  const int n = ranks.size();
  const int position = (ranks.rank() - root + n) % n;
  int distance = first_distance(position, n);
  if (position != 0) co_await ranks.receive((position - distance + root) % n, data);
  for (distance /= 2; distance > 0; distance /= 2)
    if (position + distance < n) co_await ranks.send((position + distance + root) % n, data);
}

Flow bcast_scatter_allgather(Ranks ranks, Payload data, int root) {
  const int n = ranks.size();
  const int position = (ranks.rank() - root + n) % n;
  const PackedOut packed(data, position == 0);
  const Pieces pieces(packed.data(), data.bytes, n);

  int distance = first_distance(position, n);
  if (position != 0)
    co_await ranks.receive((position - distance + root) % n,
                           pieces.range(position, std::min(position + distance, n)));
  for (distance /= 2; distance > 0; distance /= 2) {
    const int child = position + distance;
    if (child < n)
      co_await ranks.send((child + root) % n, pieces.range(child, std::min(child + distance, n)));
  }
  const auto piece = [&](int i) { return pieces.range(i, i + 1); };
  co_await ring(ranks, root, piece);
  if (position != 0) packed.finish();
}

}  // namespace isthmus::coll
