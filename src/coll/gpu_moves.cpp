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

/// What travels at a time. The root writes each byte to one member, who writes it to the others: so the link
/// of no GPU carries more than the data once each way. On four H200, us for 64 MiB: 258 in parts of 16 MiB,
/// 328 and 308 of 8 and 4; 320 where members fetch from one another, in parts of any length, and 521 where
/// each fetches its share from the root too, which is as long as if all fetched everything there; NCCL 224.
std::uint64_t part_of(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t least = 4U << 20U;
  constexpr std::uint64_t most = 16U << 20U;
  constexpr std::uint64_t parts = 4;
  return std::clamp(bytes / parts, least, most);
}

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

class LongBroadcast {
 public:
  LongBroadcast(GpuTeam& team, const GpuView& view, std::byte* data, std::uint64_t bytes, int root)
      : team_(team), view_(view), data_(data), bytes_(bytes), part_(part_of(bytes)), root_(root) {}

  Result<> run(GpuWork& work) {
    auto queue = work.queue(0);
    if (!queue) return std::unexpected(std::move(queue).error());
    for (int i = 0; i < members(); ++i) {
      auto place = team_.send_of(view_, rank_of(i), bytes_);
      if (!place) return std::unexpected(std::move(place).error());
      places_.push_back(*place);
    }
    return is_root() ? deal_out(work, **queue) : hand_on(work, **queue);
  }
  /// Whatever happens, nobody is to wait for what does not come.
  void tell_all() {
    if (is_root()) tell(parts());
  }

 private:
  [[nodiscard]] bool is_root() const { return team_.team().rank() == root_; }
  [[nodiscard]] std::uint64_t parts() const { return (bytes_ + part_ - 1) / part_; }
  [[nodiscard]] int members() const { return team_.team().size() - 1; }
  /// Members other than the root, from 0.
  [[nodiscard]] int rank_of(int index) const { return index < root_ ? index : index + 1; }
  [[nodiscard]] Share share(std::uint64_t part, int index) const {
    const std::uint64_t begin = part * part_;
    return share_of(begin, std::min(part_, bytes_ - begin), index, members());
  }

  /// The root: of each part a share to each member, told when it has come.
  Result<> deal_out(const GpuWork& work, GpuQueue& queue) {
    for (std::uint64_t part = 0; part < parts(); ++part) {
      pieces_.clear();
      for (int i = 0; i < members(); ++i)
        if (const Share its = share(part, i); its.bytes > 0)
          pieces_.push_back({places_[static_cast<std::size_t>(i)] + its.begin, data_ + its.begin, its.bytes});
      ISTHMUS_TRY(queue.copy(pieces_));
      if (auto mark = queue.mark(); !mark) return std::unexpected(std::move(mark).error());
      ISTHMUS_TRY(tell_arrived(queue, part + 1));
    }
    while (told_ < parts()) {
      ISTHMUS_TRY(tell_arrived(queue, parts()));
      work.look_around();
    }
    return {};
  }
  Result<> tell_arrived(const GpuQueue& queue, std::uint64_t started) {
    const std::uint64_t before = told_;
    while (told_ < started) {
      auto passed = queue.has_passed(told_);
      if (!passed) return std::unexpected(std::move(passed).error());
      if (!*passed) break;
      ++told_;
    }
    if (told_ != before) tell(told_);
    return {};
  }
  void tell(std::uint64_t arrived) {
    Team& team = team_.team();
    team.area()
        .presence(team.rank())
        .progress.store(team.gpu_call() << 16U | arrived, std::memory_order_release);
  }
  /// Another member: its shares of what has come, to the others.
  Result<> hand_on(const GpuWork& work, GpuQueue& queue) {
    const Team& team = team_.team();
    const std::uint64_t base = team.gpu_call() << 16U;
    for (std::uint64_t part = 0; part < parts();) {
      const std::uint64_t told = team.area().presence(root_).progress.load(std::memory_order_acquire);
      const std::uint64_t ready = told > base ? std::min(told - base, parts()) : 0;
      for (; part < ready; ++part)
        ISTHMUS_TRY(hand_on(queue, part));
      work.look_around();
    }
    return {};
  }
  /// Beginning behind the own one: not all to the same member at once.
  Result<> hand_on(GpuQueue& queue, std::uint64_t part) {
    pieces_.clear();
    const int rank = team_.team().rank();
    const int own = rank < root_ ? rank : rank - 1;
    const Share mine = share(part, own);
    for (int k = 1; k < members() && mine.bytes > 0; ++k) {
      std::byte* const there = places_[static_cast<std::size_t>((own + k) % members())];
      pieces_.push_back({there + mine.begin, data_ + mine.begin, mine.bytes});
    }
    return pieces_.empty() ? Result<>() : queue.copy(pieces_);
  }

  GpuTeam& team_;
  const GpuView& view_;
  std::byte* const data_;
  const std::uint64_t bytes_;
  const std::uint64_t part_;
  const int root_;
  std::vector<std::byte*> places_;  ///< of each member's buffer, by index
  std::vector<CopyPiece> pieces_;
  std::uint64_t told_ = 0;
};

}  // namespace

bool is_handed_on(int ranks, std::uint64_t bytes) noexcept {
  constexpr std::uint64_t most_parts = (1U << 16U) - 1;
  const std::uint64_t part = part_of(bytes);
  return ranks > 2 && bytes >= 2 * part && bytes / part < most_parts;
}

Result<> bcast_gpu(GpuTeam& team, const GpuView& view, std::byte* data, std::uint64_t bytes, int root) {
  if (is_handed_on(team.team().size(), bytes)) {
    LongBroadcast broadcast(team, view, data, bytes, root);
    Result<> done = on_gpu(team, view, [&](GpuWork& work) { return broadcast.run(work); });
    if (!done) broadcast.tell_all();
    return done;
  }
  if (team.team().rank() == root || bytes == 0) return {};
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
