#include "coll/gpu_reduce.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace isthmus::coll {
namespace {

using Sources = std::array<const std::byte*, GpuKernels::most_sources>;

/// Bytes that one member reads of others up to which it computes everything for itself: a second round,
/// even one that is only another kernel behind the first, costs more than reading more.
constexpr std::uint64_t most_for_itself = 1U << 20U;

/// A share up to here is handed to the others by a kernel behind the one that computes it, a longer one in
/// pieces by copy engines, while the next piece is computed.
constexpr std::uint64_t short_share = 256U << 10U;
constexpr std::uint64_t piece_bytes = 4U << 20U;

/// Elements of which each member computes a share; shares begin at multiples of 256 bytes.
struct Share {
  std::int64_t first, count;

  static Share of(const Reduction& what, int index, int members) {
    const std::int64_t grain = std::max<std::int64_t>(1, 256 / what.type->size());
    const std::int64_t each = (what.count / members + grain - 1) / grain * grain;
    const std::int64_t begin = std::min(each * index, what.count);
    const std::int64_t end = index + 1 == members ? what.count : std::min(begin + each, what.count);
    return {begin, end - begin};
  }
};

std::uint64_t bytes_of(const Reduction& what) {
  return static_cast<std::uint64_t>(what.count * what.type->size());
}

/// All members' operands, from element `first` on, of which there are `total`.
Result<Sources> operands(GpuTeam& team, const GpuView& view, const Reduction& what, std::int64_t first,
                         std::int64_t total) {
  Sources sources{};
  for (int i = 0; i < team.team().size(); ++i) {
    auto from = team.send_of(view, i, static_cast<std::uint64_t>(total * what.type->size()));
    if (!from) return std::unexpected(std::move(from).error());
    sources[static_cast<std::size_t>(i)] = *from + first * what.type->size();
  }
  return sources;
}

/// `count` elements behind the first `done` ones.
Result<> compute(GpuWork& work, const Reduction& what, int members, const Sources& operands,
                 std::int64_t done, std::int64_t count, std::byte* result) {
  Sources sources = operands;
  for (const std::byte*& source : sources)
    if (source) source += done * what.type->size();
  return work.reduce(what, std::span(sources).first(static_cast<std::size_t>(members)), result, count);
}

Result<> compute_alone(GpuTeam& team, const GpuView& view, std::byte* receive, const Reduction& what,
                       std::int64_t first, std::int64_t total) {
  if (what.count == 0) return {};
  auto sources = operands(team, view, what, first, total);
  if (!sources) return std::unexpected(std::move(sources).error());
  return on_gpu(team, view, [&](GpuWork& work) {
    return compute(work, what, team.team().size(), *sources, 0, what.count, receive);
  });
}

// A member alone reads its share of the operands, so it may overwrite that in the others' memory as soon as
// it has it, even where they reduce in place.

/// Where results go: the beginning of some members' receive buffers.
using Targets = std::vector<std::byte*>;

/// Computes a share into `own` and hands it to the others, piece by piece behind the kernels.
Result<> compute_share(GpuTeam& team, GpuWork& work, const Reduction& what, const Share& share,
                       const Sources& sources, std::byte* own, const Targets& others) {
  const std::int64_t size = what.type->size();
  const auto bytes = static_cast<std::uint64_t>(share.count * size);
  const int members = team.team().size();
  if (bytes <= short_share) {
    ISTHMUS_TRY(compute(work, what, members, sources, 0, share.count, own));
    std::vector<CopyPiece> pieces;
    for (std::byte* other : others)
      pieces.push_back({other + share.first * size, own, bytes});
    return pieces.empty() ? Result<>() : work.copy_behind(pieces);
  }
  auto computing = work.queue(0);
  if (!computing) return std::unexpected(std::move(computing).error());
  const std::int64_t at_once = std::max<std::int64_t>(1, static_cast<std::int64_t>(piece_bytes) / size);
  for (std::int64_t done = 0; done < share.count; done += at_once) {
    const std::int64_t count = std::min(at_once, share.count - done);
    ISTHMUS_TRY(compute(work, what, members, sources, done, count, own + done * size));
    auto mark = (*computing)->mark();
    if (!mark) return std::unexpected(std::move(mark).error());
    for (std::size_t i = 0; i < others.size(); ++i) {
      auto handing = work.queue(1 + i % (GpuWork::most_queues - 1));
      if (!handing) return std::unexpected(std::move(handing).error());
      ISTHMUS_TRY((*handing)->wait_for(**computing, *mark));
      ISTHMUS_TRY((*handing)->copy(others[i] + (share.first + done) * size, own + done * size,
                                   static_cast<std::uint64_t>(count * size)));
    }
  }
  return {};
}

}  // namespace

Result<> reduce_part_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, const Reduction& what,
                         std::int64_t first) {
  return compute_alone(team, view, receive, what, first, first + what.count);
}

Result<> reduce_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, const Reduction& what, int root) {
  const int n = team.team().size();
  const int rank = team.team().rank();
  const std::uint64_t bytes = bytes_of(what);
  if (n == 2 || bytes * static_cast<unsigned>(n - 1) <= most_for_itself) {
    if (rank != root) return {};
    return compute_alone(team, view, receive, what, 0, what.count);
  }
  // Everybody computes a share straight into the root's memory.
  const Share share = Share::of(what, rank, n);
  auto to = team.receive_of(view, root, bytes);
  if (!to) return std::unexpected(std::move(to).error());
  return compute_alone(team, view, *to + share.first * what.type->size(), {share.count, what.type, what.op},
                       share.first, what.count);
}

Result<> allreduce_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, const Reduction& what) {
  const int n = team.team().size();
  const int rank = team.team().rank();
  const std::uint64_t bytes = bytes_of(what);
  if (!view.in_place && bytes * static_cast<unsigned>(n - 1) <= most_for_itself)
    return compute_alone(team, view, receive, what, 0, what.count);
  const Share share = Share::of(what, rank, n);
  if (share.count == 0) return {};
  auto sources = operands(team, view, what, share.first, what.count);
  if (!sources) return std::unexpected(std::move(sources).error());
  Targets others;
  for (int k = 1; k < n; ++k) {
    auto to = team.receive_of(view, (rank + k) % n, bytes);
    if (!to) return std::unexpected(std::move(to).error());
    others.push_back(*to);
  }
  std::byte* const own = receive + share.first * what.type->size();
  return on_gpu(team, view,
                [&](GpuWork& work) { return compute_share(team, work, what, share, *sources, own, others); });
}

}  // namespace isthmus::coll
