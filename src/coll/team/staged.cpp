#include "coll/team/staged.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "coll/call/local.hpp"
#include "coll/call/operands.hpp"
#include "coll/call/part_reduction.hpp"
#include "coll/team/flat.hpp"
#include "coll/team/step.hpp"

namespace isthmus::coll {

namespace {

/// What of a block is in the piece that begins at `offset`.
std::uint64_t in_piece(std::uint64_t block_bytes, std::uint64_t offset) noexcept {
  return block_bytes > offset ? std::min(slot_bytes, block_bytes - offset) : 0;
}

/// `largest` of the blocks; `agreed`: what members have to agree on. Each piece is there for the others
/// before the one ahead of it is taken, so that nobody waits for a copy.
template <class Receive>
Result<> allgather_in_pieces(Team& team, const In& send, const Receive& receive, std::uint64_t largest,
                             std::uint64_t agreed) {
  const Payload own = block(receive, team.rank());
  const Payload mine = send.buffer == in_place ? own : whole(send);
  const std::uint64_t sent = std::min(own.bytes, mine.bytes);
  const auto take = [&](const Step& step, std::uint64_t offset) {
    return for_others(team, [&](int other) -> Result<> {
      ISTHMUS_TRY(step.hear(other));
      const Payload place = block(receive, other);
      if (const std::uint64_t bytes = in_piece(place.bytes, offset); bytes != 0)
        unpack_part({step.heard(other, bytes), bytes}, place, offset);
      if (team.size() == 2) step.hand_back(other, in_piece(place.bytes, offset));
      return {};
    });
  };
  if (send.buffer != in_place) copy(mine, own);
  std::array<std::optional<Step>, 2> steps;
  Result<> taken;
  std::uint64_t piece = 0;
  for (std::uint64_t offset = 0; offset < largest && taken; offset += slot_bytes, ++piece) {
    const Step& step = steps[piece % 2].emplace(team, Collective::allgather, 0, agreed);
    if (const std::uint64_t bytes = in_piece(sent, offset); bytes != 0)
      pack_part(mine, offset, {step.room(bytes), bytes});
    // Who is in another call takes other steps: nobody goes on before all are known to be in this one.
    if (piece == 0)
      taken = step.exchange();
    else
      step.publish();
    std::optional<Step>& before = steps[(piece + 1) % 2];
    if (!before) continue;
    taken = take(*before, offset - slot_bytes);
    before.reset();  // the older one first
  }
  if (taken && piece != 0) taken = take(*steps[(piece - 1) % 2], (piece - 1) * slot_bytes);
  return taken;
}

}  // namespace

Result<> allgather_staged(Team& team, const In& send, const Out& receive) {
  const std::uint64_t bytes = block(receive, team.rank()).bytes;
  return allgather_in_pieces(team, send, receive, bytes, bytes);
}

Result<> allgather_staged(Team& team, const In& send, const OutV& receive) {
  return allgather_in_pieces(team, send, receive, largest_block(receive, team.size()),
                             bytes_of_blocks(receive, team.size()));
}

Result<> bcast_staged(Team& team, const Payload& data, int root) {
  team.place_bcast(root, (data.bytes + slot_bytes - 1) / slot_bytes);
  const int writer = team.size() == 2 ? 0 : root;  // one place for both, see `Team::place_bcast`
  for (std::uint64_t offset = 0; offset < data.bytes; offset += slot_bytes) {
    const std::uint64_t bytes = std::min(slot_bytes, data.bytes - offset);
    const Step step(team, Collective::bcast, root, data.bytes);
    if (team.rank() == root) {
      pack_part(data, offset, {step.slot(writer), bytes});
      step.put_number(step.slot_number());
      step.publish();
      continue;
    }
    step.publish_quietly();  // so that two who wait for each other notice
    ISTHMUS_TRY(step.hear(root));
    if (step.heard_number(root) != step.slot_number()) [[unlikely]]
      return fail(ErrorClass::root, "in the bcast before this one, ranks have named different roots");
    unpack_part({step.slot(writer), bytes}, data, offset);
    if (team.size() == 2) team.hand_back(step.slot(writer), bytes);
  }
  return {};
}

/// Two members have two places on the stage, and each writes where the other did in the call before: there it
/// has the lines, which it read then. So a line goes from one cache to the other once a call, not twice.
Result<> alltoall_staged(Team& team, const In& send, const Out& receive, std::byte* stage) {
  const In source = send.buffer == in_place ? In{receive.buffer, receive.count, receive.type} : send;
  const auto n = static_cast<std::uint64_t>(team.size());
  const std::uint64_t bytes = block(source, 0).bytes;
  const bool swaps = team.stagings() % 2 == 0;
  const auto place = [&](int from, int to) {
    const auto [row, column] = swaps ? std::pair(to, from) : std::pair(from, to);
    return stage + bytes * (n * static_cast<unsigned>(row) + static_cast<unsigned>(column));
  };
  const Step step(team, Collective::alltoall, 0, bytes);
  team.staged_in(step.number());
  for (int i = 0; i < team.size(); ++i)
    if (i != team.rank()) pack(block(source, i), place(team.rank(), i));
  step.announce();
  copy(block(source, team.rank()), block(receive, team.rank()));  // nothing, where it is in place
  ISTHMUS_TRY(step.hear_all());
  for (int i = 0; i < team.size(); ++i)
    if (i != team.rank()) unpack(place(i, team.rank()), block(receive, i));
  return {};
}

namespace {

/// What each member puts on the stage at a time.
constexpr std::uint64_t piece_bytes = 128 * 1024;
/// Of each member, which are on the stage in turn. Whoever writes into a place again has heard that all have
/// fetched what was there: see `reduce_staged`.
constexpr std::int64_t pieces_on_stage = 4;

/// The pieces of a reduction, and the shares that members reduce of each.
class StagedPieces {
 public:
  StagedPieces(const Reduction& what, int members) noexcept
      : elements_(std::clamp<std::int64_t>(
            static_cast<std::int64_t>(piece_bytes) / std::max<std::int64_t>(what.type->size(), 1), 1,
            std::max<std::int64_t>(what.count, 1))),
        count_(what.count),
        size_(what.type->size()),
        bytes_((static_cast<std::uint64_t>(elements_ * size_) + wire::cache_line - 1) / wire::cache_line *
               wire::cache_line),
        members_(members) {}

  [[nodiscard]] std::uint64_t bytes_on_stage() const noexcept { return bytes_ * pieces_on_stage; }
  [[nodiscard]] std::int64_t count() const noexcept { return (count_ + elements_ - 1) / elements_; }
  [[nodiscard]] std::int64_t largest_share() const noexcept { return Shares(elements_, members_).size(0); }

  /// Elements of the whole.
  struct Part {
    std::int64_t begin = 0, size = 0;
  };
  [[nodiscard]] Part share(std::int64_t piece, int of) const noexcept {
    const std::int64_t first = piece * elements_;
    const Shares shares(std::min(elements_, count_ - first), members_);
    return {first + shares.begin(of), shares.size(of)};
  }
  /// Where `rank` puts its operand for the share of another member. No share lies where another one does in
  /// any piece.
  [[nodiscard]] std::byte* at(std::byte* stage, std::int64_t piece, int rank, int of) const noexcept {
    const std::int64_t place = std::int64_t{rank} * pieces_on_stage + piece % pieces_on_stage;
    return stage + bytes_ * static_cast<std::uint64_t>(place) + Shares(elements_, members_).begin(of) * size_;
  }

 private:
  std::int64_t elements_;
  std::int64_t count_, size_;
  std::uint64_t bytes_;
  int members_;
};

/// One member's part in a reduction that is staged.
class StagedReduction {
 public:
  StagedReduction(Team& team, const void* send, void* receive, const Reduction& what, int root,
                  std::byte* stage)
      : pieces(what, team.size()),
        send_(send),
        receive_(receive),
        what_(what),
        rank_(team.rank()),
        size_(team.size()),
        stage_(stage),
        root_(root),
        has_result_(root == everybody || root == rank_),
        is_told_(root == everybody || root != rank_),
        keeps_apart_(!has_result_ || (send == receive && rank_ != size_ - 1)),
        value_(keeps_apart_ ? pieces.largest_share() : 0, *what.type) {}

  /// For the others, what they reduce.
  void contribute(std::int64_t piece) const {
    for (int i = 0; i < size_; ++i) {
      if (i == rank_) continue;
      const auto [begin, size] = pieces.share(piece, i);
      pack(elements(send_, begin, size, *what_.type), pieces.at(stage_, piece, rank_, i));
    }
  }
  /// All have contributed to this piece. The running value is always the right operand, where results go.
  Result<> reduce(std::int64_t piece) {
    const auto [begin, size] = pieces.share(piece, rank_);
    void* const value = keeps_apart_ ? value_.buffer() : element(receive_, begin, *what_.type);
    const Payload result = elements(value, 0, size, *what_.type);
    if (rank_ == size_ - 1) {
      if (keeps_apart_ || send_ != receive_) copy(elements(send_, begin, size, *what_.type), result);
    } else {
      unpack(pieces.at(stage_, piece, size_ - 1, rank_), result);
    }
    for (int i = size_ - 2; i >= 0; --i) {
      const void* const operand =
          i == rank_ ? element(send_, begin, *what_.type) : pieces.at(stage_, piece, i, rank_);
      ISTHMUS_TRY(what_.op->reduce(operand, value, size, *what_.type));
    }
    if (is_told_) pack(result, result_of(piece, rank_));
    if (has_result_ && keeps_apart_) copy(result, elements(receive_, begin, size, *what_.type));
    return {};
  }
  /// All have reduced this piece.
  void fetch(std::int64_t piece) const {
    for (int i = 0; i < size_ && has_result_; ++i) {
      if (i == rank_) continue;
      const auto [begin, size] = pieces.share(piece, i);
      unpack(result_of(piece, i), elements(receive_, begin, size, *what_.type));
    }
  }

  const StagedPieces pieces;

 private:
  /// Where others find what the shares of `of` have come to: over an operand, which `of` has read. Of two
  /// members each then writes where it has read last, so a line goes from one cache to the other once, not
  /// there and back.
  [[nodiscard]] std::byte* result_of(std::int64_t piece, int of) const noexcept {
    return pieces.at(stage_, piece, root_ == everybody ? (of + 1) % size_ : root_, of);
  }

  const void* send_;
  void* receive_;
  const Reduction& what_;
  int rank_, size_;
  std::byte* stage_;
  int root_;
  bool has_result_;
  bool is_told_;      ///< others want what its own shares have come to
  bool keeps_apart_;  ///< what they come to, for the receive buffer has no room for it meanwhile
  Elements value_;
};

}  // namespace

std::uint64_t reduce_stage_bytes(const Reduction& what) noexcept {
  return StagedPieces(what, 1).bytes_on_stage();
}

/// In step `k` a member says that it has contributed to piece `k`, and reduced its share of the one before.
/// It has fetched the results of piece `k - 3` by then; behind the step all contribute to piece `k + 1`,
/// which has the same place on the stage.
Result<> reduce_staged(Team& team, const void* send, void* receive, const Reduction& what, int root,
                       std::byte* stage) {
  StagedReduction mine(team, send, receive, what, root, stage);
  const bool to_all = root == everybody;
  const Collective collective = to_all ? Collective::allreduce : Collective::reduce;
  const std::uint64_t all_bytes = elements(send, what).bytes;
  const std::int64_t count = mine.pieces.count();
  if (count == 0) return {};
  Result<> result;
  mine.contribute(0);
  for (std::int64_t piece = 0; piece <= count; ++piece) {
    const Step step(team, collective, to_all ? 0 : root, all_bytes);
    if (piece == count) team.staged_in(step.number());
    step.announce();
    if (piece >= 2) mine.fetch(piece - 2);
    ISTHMUS_TRY(step.hear_all());
    if (piece == count) {
      mine.fetch(piece - 1);
      break;
    }
    if (result) result = mine.reduce(piece);
    if (piece + 1 < count) mine.contribute(piece + 1);
  }
  return result;
}

}  // namespace isthmus::coll
