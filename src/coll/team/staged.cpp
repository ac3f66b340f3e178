#include "coll/team/staged.hpp"

#include <algorithm>
#include <cstring>

#include "coll/call/local.hpp"
#include "coll/call/operands.hpp"
#include "coll/team/flat.hpp"
#include "coll/team/step.hpp"

namespace isthmus::coll {

Result<> bcast_staged(Team& team, const Payload& data, int root) {
  for (std::uint64_t offset = 0; offset < data.bytes; offset += slot_bytes) {
    const std::uint64_t bytes = std::min(slot_bytes, data.bytes - offset);
    const Step step(team, Collective::bcast, root, data.bytes);
    if (team.rank() == root) {
      pack_part(data, offset, {step.room(bytes), bytes});
      step.publish();
    } else {
      step.publish_quietly();
      ISTHMUS_TRY(step.hear(root));
      unpack_part({step.heard(root, bytes), bytes}, data, offset);
    }
  }
  return {};
}

Result<> alltoall_staged(Team& team, const In& send, const Out& receive, std::byte* stage) {
  const In source = send.buffer == in_place ? In{receive.buffer, receive.count, receive.type} : send;
  const auto n = static_cast<unsigned>(team.size());
  const std::uint64_t bytes = block(source, 0).bytes;
  const auto from = [&](int rank) { return stage + bytes * n * static_cast<unsigned>(rank); };
  const Step step(team, Collective::alltoall, 0, bytes);
  team.staged_in(step.number());
  pack(Payload::of(source.buffer, source.count * team.size(), *source.type), from(team.rank()));
  ISTHMUS_TRY(step.exchange());
  for (int i = 0; i < team.size(); ++i)
    unpack(from(i) + bytes * static_cast<unsigned>(team.rank()), block(receive, i));
  return {};
}

namespace {

/// What each member puts on the stage at a time.
constexpr std::uint64_t piece_bytes = 64 * 1024;

/// The pieces of a reduction: two of each member are on the stage, in turn.
class StagedPieces {
 public:
  explicit StagedPieces(const Reduction& what) noexcept
      : elements_(std::clamp<std::int64_t>(
            static_cast<std::int64_t>(piece_bytes) / std::max<std::int64_t>(what.type->size(), 1), 1,
            std::max<std::int64_t>(what.count, 1))),
        bytes_((static_cast<std::uint64_t>(elements_ * what.type->size()) + wire::cache_line - 1) /
               wire::cache_line * wire::cache_line) {}

  [[nodiscard]] std::int64_t elements() const noexcept { return elements_; }
  [[nodiscard]] std::uint64_t bytes_of_two() const noexcept { return 2 * bytes_; }
  [[nodiscard]] std::byte* at(std::byte* stage, int rank, std::int64_t piece) const noexcept {
    return stage + bytes_ * (2 * static_cast<std::uint64_t>(rank) + static_cast<std::uint64_t>(piece % 2));
  }

 private:
  std::int64_t elements_;
  std::uint64_t bytes_;
};

}  // namespace

std::uint64_t reduce_stage_bytes(const Reduction& what) noexcept {
  return StagedPieces(what).bytes_of_two();
}

Result<> reduce_staged(Team& team, const void* send, void* receive, const Reduction& what, int root,
                       std::byte* stage) {
  const StagedPieces pieces(what);
  const int n = team.size();
  const bool to_all = root == everybody;
  const Collective collective = to_all ? Collective::allreduce : Collective::reduce;
  const std::uint64_t all_bytes = elements(send, what).bytes;
  const std::int64_t size = what.type->size();
  Elements value(Shares(pieces.elements(), n).size(0), *what.type);
  Result<> result;
  for (std::int64_t first = 0, piece = 0; first < what.count; first += pieces.elements(), ++piece) {
    const std::int64_t count = std::min(pieces.elements(), what.count - first);
    const Shares shares(count, n);
    const std::int64_t mine = shares.size(team.rank());
    const auto share_of = [&](int rank, int share) {
      return pieces.at(stage, rank, piece) + shares.begin(share) * size;
    };
    {
      const Step step(team, collective, to_all ? 0 : root, all_bytes);
      pack(elements(send, first, count, *what.type), pieces.at(stage, team.rank(), piece));
      ISTHMUS_TRY(step.exchange());
      // The running value is always the right operand, where results go.
      unpack(share_of(n - 1, team.rank()), elements(value.buffer(), 0, mine, *what.type));
      for (int i = n - 2; i >= 0 && result; --i)
        result = what.op->reduce(share_of(i, team.rank()), value.buffer(), mine, *what.type);
      pack(elements(value.buffer(), 0, mine, *what.type), share_of(team.rank(), team.rank()));
    }
    // Who has begun this step has reduced its share; who has begun the next piece has fetched this one's.
    const Step step(team, collective, to_all ? 0 : root, all_bytes);
    team.staged_in(step.number());
    ISTHMUS_TRY(step.exchange());
    if (!to_all && team.rank() != root) continue;
    for (int i = 0; i < n; ++i)
      unpack(share_of(i, i), elements(receive, first + shares.begin(i), shares.size(i), *what.type));
  }
  return result;
}

}  // namespace isthmus::coll
