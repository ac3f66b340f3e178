#pragma once

#include "coll/call/call.hpp"
#include "coll/entry/stand_in_calls.hpp"
#include "coll/flow/flow.hpp"
#include "coll/lanes/in_lanes.hpp"

namespace isthmus::coll {

/// `start_on_host` with stand-ins for the buffers in GPU memory.
template <class Call>
Flow with_stand_ins(Ranks ranks, Call c, GpuMessages& gpu) {
  StandIns stand_ins(gpu);
  const Call in_host_memory = stand_in(c, stand_ins, ranks.comm());
  stand_ins.fetch();
  co_await start_on_host(ranks, in_host_memory);
  co_await stand_ins.finish({});
}

/// The nonblocking form of every collective, for buffers in any memory: begins it on the lane of `ranks`,
/// without waiting for anybody. What the arguments point to must live until the flow is done.
template <class Call>
[[gnu::always_inline]] inline Flow start(const Ranks& ranks, const Call& c) {
  Engine& engine = ranks.comm().engine();
  if (engine.uses_cuda()) [[unlikely]]
    if (GpuMessages* const gpu = engine.gpu()) return with_stand_ins(ranks, c, *gpu);
  return start_on_host(ranks, c);
}

/// The same for each start of a persistent collective, which keeps `way` between them.
template <GoesInLanes Call>
Flow start_again(const Ranks& ranks, const Call& c, LaneWay& way) {
  if (!ranks.comm().engine().uses_cuda()) [[likely]]
    if (const Algorithm* const algorithm = way.find(ranks, c)) [[likely]]
      return in_lane(*algorithm, way.team().take(ranks.lane()), c);
  return start(ranks, c);
}

}  // namespace isthmus::coll
