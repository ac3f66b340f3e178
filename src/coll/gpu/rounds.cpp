#include "coll/gpu/rounds.hpp"

#include <algorithm>
#include <vector>

#include "coll/call/even_cut.hpp"

namespace isthmus::coll {
namespace {

/// One member's side of all rounds.
class GpuRounds {
 public:
  GpuRounds(GpuTeam& team, const GpuView& view, const GpuCall& call, const GpuPassage& passage)
      : team_(team),
        view_(view),
        call_(call),
        passage_(passage),
        members_(team.team().size()),
        rank_(team.team().rank()) {
    const std::uint64_t grain = gpu_grain;
    stride_ = view.half_window / static_cast<unsigned>(passage.is_for_each ? members_ : 1) / grain * grain;
    const auto element =
        static_cast<std::uint64_t>(passage.combined ? passage.combined->what.type->size() : 1);
    length_ = stride_ / element * element;
  }

  Result<> run() {
    if (view_.longest == 0) return {};
    if (length_ == 0) return fail(ErrorClass::intern, "a window that has no room for a round");
    const std::uint64_t rounds = (view_.longest + length_ - 1) / length_;
    Result<> done = work(0, false, true);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      done = team_.meet(call_, std::move(done));
      if (!done) return done;
      done = work(round, true, round + 1 < rounds);
    }
    return done;
  }

 private:
  [[nodiscard]] std::size_t slot_of(int member) const {
    return passage_.is_for_each ? static_cast<std::size_t>(member) : 0;
  }
  /// Where what is for a member of a round is in a window.
  [[nodiscard]] std::uint64_t place(std::uint64_t round, int member) const {
    return round % 2 * view_.half_window + slot_of(member) * stride_;
  }
  /// A round's part of a block.
  [[nodiscard]] GpuBlock part(const GpuBlock& block, std::uint64_t round) const {
    const std::uint64_t begin = std::min(round * length_, block.bytes);
    return {block.data + begin, std::min(length_, block.bytes - begin)};
  }

  /// Fetches a round, and copies the one behind it in; both at the same time.
  Result<> work(std::uint64_t round, bool fetches, bool fills) {
    pieces_.clear();
    if (fills) ISTHMUS_TRY(add_own(fetches ? round + 1 : 0));
    Sources sources{};
    Reduction what{0, nullptr, nullptr};
    if (fetches && passage_.combined) {
      what = count_of(round);
      if (what.count > 0) ISTHMUS_TRY(find(round, what, sources));
    } else if (fetches) {
      ISTHMUS_TRY(add_others(round));
    }
    if (pieces_.empty() && what.count == 0) return {};
    return on_gpu(team_, view_, [&](GpuWork& work) -> Result<> {
      if (what.count > 0) {
        std::byte* const result = passage_.combined->result + round * length_;
        const auto operands = static_cast<std::size_t>(passage_.combined->operands);
        ISTHMUS_TRY(work.reduce(what, std::span(sources).first(operands), std::span(&result, 1)));
      }
      return pieces_.empty() ? Result<>() : work.copy(pieces_);
    });
  }

  /// To this member's window.
  Result<> add_own(std::uint64_t round) {
    for (int i = 0; i < (passage_.is_for_each ? members_ : 1); ++i) {
      const GpuBlock from = part(passage_.out[static_cast<std::size_t>(i)], round);
      if (from.bytes == 0) continue;
      auto to = team_.window_of(view_, rank_, place(round, i), from.bytes);
      if (!to) return std::unexpected(std::move(to).error());
      pieces_.push_back({*to, from.data, from.bytes});
    }
    return {};
  }

  /// From the others' windows, beginning behind the own rank: not all from the same member at once.
  Result<> add_others(std::uint64_t round) {
    for (int k = 0; k < members_; ++k) {
      const int i = (rank_ + k) % members_;
      const GpuBlock to = part(passage_.in[static_cast<std::size_t>(i)], round);
      if (to.bytes == 0 || (i == rank_ && !passage_.own)) continue;
      if (i == rank_) {
        pieces_.push_back({to.data, passage_.own + round * length_, to.bytes});
        continue;
      }
      auto from = team_.window_of(view_, i, place(round, rank_), to.bytes);
      if (!from) return std::unexpected(std::move(from).error());
      pieces_.push_back({to.data, *from, to.bytes});
    }
    return {};
  }

  using Sources = std::array<const std::byte*, GpuKernels::most_sources>;

  [[nodiscard]] Reduction count_of(std::uint64_t round) const {
    const Reduction& what = passage_.combined->what;
    if (passage_.combined->operands == 0) return {0, what.type, what.op};
    const std::int64_t element = what.type->size();
    const std::uint64_t bytes = static_cast<std::uint64_t>(what.count * element);
    const GpuBlock rest = part({passage_.combined->result, bytes}, round);
    return {static_cast<std::int64_t>(rest.bytes) / element, what.type, what.op};
  }
  Result<> find(std::uint64_t round, const Reduction& what, Sources& sources) {
    const auto bytes = static_cast<std::uint64_t>(what.count * what.type->size());
    for (int i = 0; i < passage_.combined->operands; ++i) {
      auto from = team_.window_of(view_, i, place(round, rank_), bytes);
      if (!from) return std::unexpected(std::move(from).error());
      sources[static_cast<std::size_t>(i)] = *from;
    }
    return {};
  }

  GpuTeam& team_;
  const GpuView& view_;
  const GpuCall& call_;
  const GpuPassage& passage_;
  const int members_;
  const int rank_;
  std::uint64_t stride_ = 0;  ///< bytes of a window's half for each block
  std::uint64_t length_ = 0;  ///< bytes of a block in one round: whole elements
  std::vector<CopyPiece> pieces_;
};

}  // namespace

Result<> in_rounds(GpuTeam& team, const GpuView& view, const GpuCall& call, const GpuPassage& passage) {
  return GpuRounds(team, view, call, passage).run();
}

}  // namespace isthmus::coll
