#pragma once

#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "coll/gpu/work.hpp"

/// Collectives that only move data, between GPUs. All buffers lie without gaps in the memory of GPUs; `bytes`
/// is one rank's block, or the whole of a broadcast. Each runs between `GpuTeam::begin` and `GpuTeam::end`:
/// what others read does not change, and what is written is read by nobody, until all are done.
namespace isthmus::coll {

/// Whether members write to each other where all have kernels, so that all must offer their buffers.
[[nodiscard]] bool is_dealt_out(int ranks, std::uint64_t bytes) noexcept;
Result<> bcast_gpu(GpuTeam& team, const GpuView& view, std::byte* data, std::uint64_t bytes, int root);

/// `send`: this member's own block, null where it is in its place.
Result<> allgather_gpu(GpuTeam& team, const GpuView& view, const std::byte* send, std::byte* receive,
                       std::uint64_t bytes);
/// To `root` alone.
Result<> gather_gpu(GpuTeam& team, const GpuView& view, const std::byte* send, std::byte* receive,
                    std::uint64_t bytes);
/// `receive` is null at a root that keeps its block in place.
Result<> scatter_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, std::uint64_t bytes, int root);
/// One member's block in a buffer.
struct GpuBlock {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;  ///< 0: there is none
};
/// Blocks of any lengths, from the beginning of what each member sends. `own`: where this member's own is,
/// null if it is in its place.
Result<> fetch_blocks_gpu(GpuTeam& team, const GpuView& view, std::span<const GpuBlock> blocks,
                          const std::byte* own);
/// The same from where each member said that this one's block begins; the own block too.
Result<> fetch_own_blocks_gpu(GpuTeam& team, const GpuView& view, std::span<const GpuBlock> blocks);

Result<> alltoall_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, std::uint64_t bytes);

}  // namespace isthmus::coll
