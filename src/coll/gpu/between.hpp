#pragma once

#include <optional>
#include <utility>

#include "base/error.hpp"
#include "coll/context/footing.hpp"
#include "coll/gpu/rounds.hpp"
#include "coll/gpu/team/gpu_team.hpp"

/// What every collective between GPUs begins and ends with.
namespace isthmus::coll::gpu {

using Tried = std::optional<Result<>>;

inline Tried failed(Error error) {
  return Tried(std::in_place, std::unexpect, std::move(error));
}

inline bool is_here(GpuMessages* gpu, const GpuPart& part) {
  if (!gpu) return false;
  const auto found = gpu->copies().find(part.payload);
  return found && *found;
}

/// Runs `body(team, view, call)` where all members know that `make_call()` can go between their GPUs; or,
/// where it has to go through windows, `passage(call)` in rounds.
template <class MakeCall, class Body, class Passage>
Tried between_gpus(Communicator& comm, MakeCall make_call, Body body, Passage passage) {
  if (comm.is_inter() || comm.size() == 1 || comm.size() > flat_ranks) return std::nullopt;
  auto footing = Footing::of(comm);
  if (!footing) [[unlikely]]
    return failed(std::move(footing).error());
  Team* const team = (*footing)->team();
  if (!team) return std::nullopt;
  if (!comm.engine().uses_cuda()) [[likely]] {
    team->all_use_gpu(false);
    return std::nullopt;
  }
  const GpuCall call = make_call();
  GpuMessages* const gpu = comm.engine().gpu();
  const bool here = !team->has_used_gpu() && (is_here(gpu, call.send) || is_here(gpu, call.receive));
  if (!team->all_use_gpu(here)) return std::nullopt;
  GpuTeam& gpu_team = (*footing)->gpu_team(*gpu);
  if (Tried met = gpu_team.meet_on_gpu(call)) {
    ++gpu->collectives.between_gpus;
    return met;
  }
  auto view = gpu_team.begin(call);
  if (!view) return failed(std::move(view).error());
  if (!*view) {
    gpu_team.saw_short(call);
    return std::nullopt;
  }
  if (call.send.payload.bytes + call.receive.payload.bytes != 0) ++gpu->collectives.between_gpus;
  const auto end = [&](Result<> done) {
    done = gpu_team.end(call, std::move(done));
    if (done) gpu_team.saw_short(call);
    return done;
  };
  if (!(*view)->by_window) return end(body(gpu_team, **view, call));
  if (call.send.payload.bytes + call.receive.payload.bytes != 0) ++gpu->collectives.by_window;
  return end(in_rounds(gpu_team, **view, call, passage(call)));
}

}  // namespace isthmus::coll::gpu
