#include "coll/gpu/moves.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "coll/call/even_cut.hpp"

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
    if (*from) pieces.push_back({to.data, *from, to.bytes});
  }
  if (pieces.empty()) return {};
  return on_gpu(team, view, [&](GpuWork& work) { return work.copy(pieces); });
}

/// Blocks of equal length, one behind the other.
auto blocks_in(std::byte* receive, std::uint64_t bytes) {
  return [=](int i) { return GpuBlock{receive + static_cast<std::uint64_t>(i) * bytes, bytes}; };
}

/// Each member but the root reads a share of the root's data, and writes it to all of them: so the link of no
/// GPU carries more than the data once each way, and nobody waits for anybody. 64 MiB to three H200 in 210
/// us, NCCL in 223; 258 to 267 where the root writes the shares and copy engines hand them on, part by part;
/// 261 and more by copy engines in a chain; 320 where members fetch from one another; 521 where each fetches
/// everything from the root.
Result<> deal_out(GpuTeam& team, const GpuView& view, std::byte* data, std::uint64_t bytes, int root) {
  const int rank = team.team().rank();
  if (rank == root) return {};
  const int members = team.team().size() - 1;
  const auto rank_of = [&](int member) { return member < root ? member : member + 1; };
  const int own = rank < root ? rank : rank - 1;
  const EvenCut cut(static_cast<std::int64_t>(bytes), members, gpu_grain);
  const std::int64_t begin = cut.begin(own);
  auto from = team.send_of(view, root, bytes);
  if (!from) return std::unexpected(std::move(from).error());
  // Beginning with the own one: not all to the same member at once.
  std::array<std::byte*, GpuKernels::most_results> to{data + begin};
  for (int k = 1; k < members; ++k) {
    auto place = team.send_of(view, rank_of((own + k) % members), bytes);
    if (!place) return std::unexpected(std::move(place).error());
    to[static_cast<std::size_t>(k)] = *place + begin;
  }
  return on_gpu(team, view, [&](GpuWork& work) {
    return work.deal(*from + begin, std::span(to).first(static_cast<std::size_t>(members)),
                     static_cast<std::uint64_t>(cut.size(own)));
  });
}

}  // namespace

bool is_dealt_out(int ranks, std::uint64_t bytes) noexcept {
  // To three H200 1 MiB takes 16.7 us so and 16.9 otherwise, half of it 14.8 and 13.1, twice as much 22.3 and
  // 25.0: what the root's link carries less has to be worth 4 us, which the kernel takes longer.
  constexpr std::uint64_t least_spared = 2U << 20U;
  return ranks > 2 && static_cast<std::size_t>(ranks) <= GpuKernels::most_results + 1 &&
         bytes >= least_spared / static_cast<unsigned>(ranks - 2);
}

Result<> bcast_gpu(GpuTeam& team, const GpuView& view, std::byte* data, std::uint64_t bytes, int root) {
  if (view.has_kernels && view.all_send && is_dealt_out(team.team().size(), bytes))
    return deal_out(team, view, data, bytes, root);
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
