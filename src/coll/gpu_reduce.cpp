#include "coll/gpu_reduce.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace isthmus::coll {
namespace {

using Sources = std::array<const std::byte*, GpuKernels::most_sources>;

/// Whether every member computes everything for itself, rather than a share that it hands to the others: that
/// takes a kernel more. Between two both move the same bytes; 4 MiB took 24.7 us the first way and 28.5 us
/// the second, 64 MiB 214 and 210. Among more, reading more than so many bytes of others takes longer than
/// that kernel, 3 us (reckoned at NVLink's 370 GB/s: there were no four GPUs to measure it on).
bool is_for_itself(int members, std::uint64_t bytes) {
  constexpr std::uint64_t most_read = 2U << 20U;
  return members == 2 || bytes * static_cast<unsigned>(members - 1) <= most_read;
}

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

/// The operands of the first `members`, from element `first` on, of which there are `total`.
Result<Sources> operands(GpuTeam& team, const GpuView& view, int members, const Reduction& what,
                         std::int64_t first, std::int64_t total) {
  Sources sources{};
  for (int i = 0; i < members; ++i) {
    auto from = team.send_of(view, i, static_cast<std::uint64_t>(total * what.type->size()));
    if (!from) return std::unexpected(std::move(from).error());
    sources[static_cast<std::size_t>(i)] = *from + first * what.type->size();
  }
  return sources;
}

Result<> compute_from(GpuTeam& team, const GpuView& view, std::byte* receive, const Reduction& what,
                      std::span<const std::byte* const> sources) {
  return on_gpu(team, view, [&](GpuWork& work) { return work.reduce(what, sources, receive, what.count); });
}

Result<> compute_alone(GpuTeam& team, const GpuView& view, std::byte* receive, const Reduction& what,
                       std::int64_t first, std::int64_t total) {
  if (what.count == 0) return {};
  const int n = team.team().size();
  auto sources = operands(team, view, n, what, first, total);
  if (!sources) return std::unexpected(std::move(sources).error());
  return compute_from(team, view, receive, what, std::span(*sources).first(static_cast<std::size_t>(n)));
}

}  // namespace

Result<> reduce_part_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, const Reduction& what,
                         std::int64_t first) {
  return compute_alone(team, view, receive, what, first, first + what.count);
}

Result<> scan_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, const Reduction& what,
                  bool inclusive) {
  const int members = team.team().rank() + (inclusive ? 1 : 0);
  if (what.count == 0 || members == 0) return {};
  auto sources = operands(team, view, members, what, 0, what.count);
  if (!sources) return std::unexpected(std::move(sources).error());
  return compute_from(team, view, receive, what,
                      std::span(*sources).first(static_cast<std::size_t>(members)));
}

Result<> reduce_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, const Reduction& what, int root) {
  const int n = team.team().size();
  const int rank = team.team().rank();
  const std::uint64_t bytes = bytes_of(what);
  if (is_for_itself(n, bytes)) {
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

// A member alone reads its share of the operands, so it may overwrite that in the others' memory as soon as
// it has it, even where they reduce in place.
//
// The share is handed on by a second kernel behind the first. Copy engines that wait for it, in pieces of 4
// MiB, took 71 us instead of 65 for 16 MiB, and 250 instead of 210 for 64 MiB; on four H200 450 to 505
// instead of 351.

Result<> allreduce_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, const Reduction& what) {
  const int n = team.team().size();
  const int rank = team.team().rank();
  const std::uint64_t bytes = bytes_of(what);
  if (!view.in_place && is_for_itself(n, bytes))
    return compute_alone(team, view, receive, what, 0, what.count);
  const Share share = Share::of(what, rank, n);
  if (share.count == 0) return {};
  auto sources = operands(team, view, n, what, share.first, what.count);
  if (!sources) return std::unexpected(std::move(sources).error());
  const std::int64_t size = what.type->size();
  std::byte* const own = receive + share.first * size;
  std::vector<CopyPiece> handed;
  for (int k = 1; k < n; ++k) {
    auto to = team.receive_of(view, (rank + k) % n, bytes);
    if (!to) return std::unexpected(std::move(to).error());
    handed.push_back({*to + share.first * size, own, static_cast<std::uint64_t>(share.count * size)});
  }
  return on_gpu(team, view, [&](GpuWork& work) -> Result<> {
    ISTHMUS_TRY(work.reduce(what, std::span(*sources).first(static_cast<std::size_t>(n)), own, share.count));
    return work.copy_behind(handed);
  });
}

}  // namespace isthmus::coll
