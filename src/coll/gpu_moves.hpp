#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "coll/gpu_work.hpp"

/// Collectives that only move data, between GPUs. All buffers lie without gaps in the memory of GPUs; `bytes`
/// is one rank's block, or the whole of a broadcast. Each runs between `GpuTeam::begin` and `GpuTeam::end`:
/// what others read does not change, and what is written is read by nobody, until all are done.
namespace isthmus::coll {

/// Whether members hand on to each other what they have fetched, so that all must offer their buffers.
[[nodiscard]] bool is_handed_on(int ranks, std::uint64_t bytes) noexcept;
Result<> bcast_gpu(GpuTeam& team, const GpuView& view, std::byte* data, std::uint64_t bytes, int root);

/// `send`: this member's own block, null where it is in its place.
Result<> allgather_gpu(GpuTeam& team, const GpuView& view, const std::byte* send, std::byte* receive,
                       std::uint64_t bytes);
/// To `root` alone.
Result<> gather_gpu(GpuTeam& team, const GpuView& view, const std::byte* send, std::byte* receive,
                    std::uint64_t bytes);
/// `receive` is null at a root that keeps its block in place.
Result<> scatter_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, std::uint64_t bytes, int root);
Result<> alltoall_gpu(GpuTeam& team, const GpuView& view, std::byte* receive, std::uint64_t bytes);

}  // namespace isthmus::coll
