#include "coll/gpu_moves.hpp"

#include <algorithm>
#include <vector>

namespace isthmus::coll {
namespace {

/// Fetches `block(i)` of each member from `source(i)`, beginning behind the own rank: not all from the same
/// member at once.
template <class Block, class Source>
Result<> fetch_all(GpuTeam& team, const GpuView& view, Block block, Source source) {
  const int n = team.team().size();
  const int rank = team.team().rank();
  std::vector<CopyPiece> pieces;
  for (int k = 0; k < n; ++k) {
    const int i = (rank + k) % n;
    const GpuBlock to = block(i);
    if (to.bytes == 0) continue;
    auto from = source(i);
    if (!from) return std::unexpected(std::move(from).error());
    if (*from) pieces.push_back({to.to, *from, to.bytes});
  }
  if (pieces.empty()) return {};
  return on_gpu(team, view, [&](GpuWork& work) { return work.copy(pieces); });
}

/// Blocks of equal length, one behind the other.
auto blocks_in(std::byte* receive, std::uint64_t bytes) {
  return [=](int i) { return GpuBlock{receive + static_cast<std::uint64_t>(i) * bytes, bytes}; };
}

// --- a long broadcast

/// What a member hands on at a time. The root sends every byte once, to one member, who hands it on to the
/// others: so the link of no GPU carries more than the data once each way.
constexpr std::uint64_t handed_on_at_once = 4U << 20U;

/// Where the share of member `index` of `members` in a part of the data lies.
struct Share {
  std::uint64_t begin, bytes;
};
Share share_of(std::uint64_t begin, std::uint64_t bytes, int index, int members) {
  constexpr std::uint64_t grain = 256;
  const auto count = static_cast<std::uint64_t>(members);
  const std::uint64_t each = (bytes / count + grain - 1) / grain * grain;
  const std::uint64_t from = std::min(each * static_cast<std::uint64_t>(index), bytes);
  const std::uint64_t to = index + 1 == members ? bytes : std::min(from + each, bytes);
  return {begin + from, to - from};
}

/// A receiving member's side of it.
class HandingOn {
 public:
  HandingOn(GpuTeam& team, const GpuView& view, std::byte* data, std::uint64_t bytes, int root)
      : team_(team), view_(view), data_(data), bytes_(bytes), root_(root) {}

  Result<> run(GpuWork& work) {
    ISTHMUS_TRY(start(work));
    while (told_ < parts() || std::ranges::any_of(fetched_, [&](std::uint64_t n) { return n < parts(); })) {
      ISTHMUS_TRY(tell());
      for (int k = 1; k < members(); ++k)
        ISTHMUS_TRY(fetch(k));
      work.look_around();
    }
    return {};
  }
  /// Whatever happens, nobody is to wait for what does not come.
  void tell_all() { tell(parts()); }

 private:
  [[nodiscard]] std::uint64_t parts() const { return (bytes_ + handed_on_at_once - 1) / handed_on_at_once; }
  [[nodiscard]] int members() const { return team_.team().size() - 1; }
  /// Members other than the root, from 0.
  [[nodiscard]] int index_of(int rank) const { return rank < root_ ? rank : rank - 1; }
  [[nodiscard]] int rank_of(int index) const { return index < root_ ? index : index + 1; }
  [[nodiscard]] int own_index() const { return index_of(team_.team().rank()); }
  [[nodiscard]] Share share(std::uint64_t part, int index) const {
    const std::uint64_t begin = part * handed_on_at_once;
    return share_of(begin, std::min(handed_on_at_once, bytes_ - begin), index, members());
  }

  /// All own shares, from the root, with a mark behind each.
  Result<> start(GpuWork& work) {
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      auto queue = work.queue(i);
      if (!queue) return std::unexpected(std::move(queue).error());
      queues_[i] = *queue;
    }
    auto from = team_.send_of(view_, root_, bytes_);
    if (!from) return std::unexpected(std::move(from).error());
    for (int i = 0; i < members(); ++i) {
      auto place = team_.send_of(view_, rank_of(i), bytes_);
      if (!place) return std::unexpected(std::move(place).error());
      places_.push_back(*place);
    }
    fetched_.assign(static_cast<std::size_t>(members()), 0);
    fetched_[static_cast<std::size_t>(own_index())] = parts();
    for (std::uint64_t part = 0; part < parts(); ++part) {
      const Share mine = share(part, own_index());
      ISTHMUS_TRY(queues_[0]->copy(data_ + mine.begin, *from + mine.begin, mine.bytes));
      if (auto mark = queues_[0]->mark(); !mark) return std::unexpected(std::move(mark).error());
    }
    return {};
  }
  /// Tells the others how many of the own shares have come.
  Result<> tell() {
    const std::uint64_t before = told_;
    while (told_ < parts()) {
      auto passed = queues_[0]->has_passed(told_);
      if (!passed) return std::unexpected(std::move(passed).error());
      if (!*passed) break;
      ++told_;
    }
    if (told_ != before) tell(told_);
    return {};
  }
  void tell(std::uint64_t shares) {
    Team& team = team_.team();
    team.area()
        .presence(team.rank())
        .progress.store(team.gpu_call() << 16U | shares, std::memory_order_release);
  }
  /// What the member `k` behind this one has told of.
  Result<> fetch(int k) {
    const int index = (own_index() + k) % members();
    std::uint64_t& fetched = fetched_[static_cast<std::size_t>(index)];
    const Team& team = team_.team();
    const std::uint64_t told = team.area().presence(rank_of(index)).progress.load(std::memory_order_acquire);
    const std::uint64_t base = team.gpu_call() << 16U;
    const std::uint64_t ready = told > base ? std::min(told - base, parts()) : 0;
    GpuQueue& queue = *queues_[1 + static_cast<std::size_t>(k - 1) % (queues_.size() - 1)];
    for (; fetched < ready; ++fetched) {
      const Share share = this->share(fetched, index);
      ISTHMUS_TRY(queue.copy(data_ + share.begin, places_[static_cast<std::size_t>(index)] + share.begin,
                             share.bytes));
    }
    return {};
  }

  GpuTeam& team_;
  const GpuView& view_;
  std::byte* const data_;
  const std::uint64_t bytes_;
  const int root_;
  std::array<GpuQueue*, GpuWork::most_queues> queues_{};
  std::vector<std::byte*> places_;      ///< of each member's buffer, by index
  std::vector<std::uint64_t> fetched_;  ///< of each member's shares
  std::uint64_t told_ = 0;
};

}  // namespace

bool is_handed_on(int ranks, std::uint64_t bytes) noexcept {
  constexpr std::uint64_t most_parts = (1U << 16U) - 1;
  return ranks > 2 && bytes >= 2 * handed_on_at_once && bytes / handed_on_at_once < most_parts;
}

Result<> bcast_gpu(GpuTeam& team, const GpuView& view, std::byte* data, std::uint64_t bytes, int root) {
  if (team.team().rank() == root || bytes == 0) return {};
  if (is_handed_on(team.team().size(), bytes)) {
    HandingOn handing_on(team, view, data, bytes, root);
    Result<> done = on_gpu(team, view, [&](GpuWork& work) { return handing_on.run(work); });
    if (!done) handing_on.tell_all();
    return done;
  }
  auto from = team.send_of(view, root, bytes);
  if (!from) return std::unexpected(std::move(from).error());
  const CopyPiece piece{data, *from, bytes};
  return on_gpu(team, view, [&](GpuWork& work) { return work.copy({&piece, 1}); });
}

Result<> allgather_gpu(GpuTeam& team, const GpuView& view, const std::byte* send, std::byte* receive,
                       std::uint64_t bytes) {
  return fetch_all(team, view, blocks_in(receive, bytes), [&](int i) -> Result<const std::byte*> {
    if (i == team.team().rank()) return send;
    return team.send_of(view, i, bytes);
  });
}

Result<> fetch_blocks_gpu(GpuTeam& team, const GpuView& view, std::span<const GpuBlock> blocks,
                          const std::byte* own) {
  const auto block = [&](int i) { return blocks[static_cast<std::size_t>(i)]; };
  return fetch_all(team, view, block, [&](int i) -> Result<const std::byte*> {
    if (i == team.team().rank()) return own;
    return team.send_of(view, i, block(i).bytes);
  });
}

Result<> fetch_own_blocks_gpu(GpuTeam& team, const GpuView& view, std::span<const GpuBlock> blocks) {
  const auto block = [&](int i) { return blocks[static_cast<std::size_t>(i)]; };
  return fetch_all(team, view, block,
                   [&](int i) -> Result<const std::byte*> { return team.own_of(view, i, block(i).bytes); });
}

Result<> gather_gpu(GpuTeam& team, const GpuView& view, const std::byte* send, std::byte* receive,
                    std::uint64_t bytes) {
  return allgather_gpu(team, view, send, receive, bytes);
}

Result<> scatter_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, std::uint64_t bytes, int root) {
  if (!receive || bytes == 0) return {};
  const Team& members = team.team();
  auto from = team.send_of(view, root, bytes * static_cast<unsigned>(members.size()));
  if (!from) return std::unexpected(std::move(from).error());
  const CopyPiece piece{receive, *from + bytes * static_cast<unsigned>(members.rank()), bytes};
  return on_gpu(team, view, [&](GpuWork& work) { return work.copy({&piece, 1}); });
}

Result<> alltoall_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, std::uint64_t bytes) {
  const Team& members = team.team();
  const std::uint64_t mine = bytes * static_cast<unsigned>(members.rank());
  return fetch_all(team, view, blocks_in(receive, bytes), [&](int i) -> Result<const std::byte*> {
    auto from = team.send_of(view, i, bytes * static_cast<unsigned>(members.size()));
    if (!from) return std::unexpected(std::move(from).error());
    return *from + mine;
  });
}

}  // namespace isthmus::coll
