#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "coll/call/coll.hpp"
#include "coll/gpu/team/gpu_team.hpp"
#include "gpu/copy/engine.hpp"
#include "gpu/driver/cuda_context.hpp"
#include "kernels/gpu_kernels.hpp"

namespace isthmus::coll {

/// What this member puts on its GPU in one collective.
class GpuWork {
 public:
  GpuWork(GpuTeam& team, const GpuView& view) : team_(team), view_(view) {}

  /// The operands combined by a kernel, on the first queue, and the result written to each of `results`.
  Result<> reduce(const Reduction& what, std::span<const std::byte* const> sources,
                  std::span<std::byte* const> results);
  /// A copy to each of `to` by a kernel, on the first queue.
  Result<> deal(const std::byte* from, std::span<std::byte* const> to, std::uint64_t bytes);
  /// Copies at the same time: short ones by one kernel, where there are kernels, the others by copy engines.
  Result<> copy(std::span<const CopyPiece> pieces);
  /// Waits for everything.
  Result<> wait();
  /// After an error.
  void drain() noexcept;

 private:
  /// Copies to or from so many peers run at the same time, each on a queue of its own.
  static constexpr std::size_t most_queues = 4;

  Result<GpuQueue*> queue(std::size_t index);
  Result<GpuStream> first_stream();

  GpuTeam& team_;
  const GpuView& view_;
  std::array<GpuQueue*, most_queues> used_{};
};

/// Runs `body(work)` on this member's GPU, and waits for what it has put there.
template <class Body>
Result<> on_gpu(GpuTeam& team, const GpuView& view, Body body) {
  cuda::PrimaryContexts& contexts = team.gpu().copies().contexts();
  auto context = contexts.of(view.device);
  if (!context) return std::unexpected(std::move(context).error());
  const cuda::ContextScope scope(contexts.functions(), *context);
  GpuWork work(team, view);
  Result<> done = body(work);
  if (done) done = work.wait();
  if (!done) work.drain();
  return done;
}

}  // namespace isthmus::coll
