// Several exchanges, and what is computed behind each, in one kernel whose blocks send, fill in what is
// local, wait for what arrives, and compute (<isthmus/fuse.cuh>): for nvcc and for the host's twin.
#pragma once

#include "common/gpu/fused.hpp"
#include "work.hpp"

namespace multigrid {

enum class Then : unsigned { smooth, restrict_residual, interpolate };

// In this order: who sends comes before who waits for others.
enum Role : unsigned { sends, locals, arrivals, computes, role_count };

struct FusedWork {
  static constexpr const char* kernel = "multigrid_fused";

  isthmus::device::DevicePort port;
  isthmus::device::Fusion fusion;
  Level level;  // whose layers are filled
  Level other;  // the coarser one where a residual is restricted, the finer one where it is interpolated
  Then then;
  unsigned first_turn;
  apps::gpu::KernelMail mail;  // a route for each face
};

ISTHMUS_DEVICE_FUNCTION Level seen(Level level) {
  level.u = isthmus::device::see(level.u);
  level.f = isthmus::device::see(level.f);
  return level;
}

ISTHMUS_DEVICE_FUNCTION bool fused_task(const FusedWork& work, const isthmus::device::Task& task,
                                        const isthmus::device::Crew& crew) {
  using apps::gpu::do_part;
  const Level level = seen(work.level);
  const unsigned turn = (work.first_turn + task.step) % apps::gpu::KernelMail::turn_count;
  const unsigned tasks = work.fusion.tasks[task.role];
  const auto points = [&](int face) { return points_of_face(level, face); };
  if (task.role != computes && !crew.wait_for_last(computes)) return false;
  switch (task.role) {
    case sends:
      return work.mail.send_values<double>(work.port, turn, task.index, points, [&](int face, long i) {
        return level.u[cell_of_face(level, face, i, false)];
      });
    case locals: {
      LocalWork local{level, {}};
      for (int face = 0; face < face_count; ++face)
        local.is_remote[face] = work.mail.peers[face] >= 0;
      do_part(local, tasks, task.index);
      return true;
    }
    case arrivals:
      return work.mail.take_values<double>(
          work.port, turn, task.index, points,
          [&](int face, long i, double value) { level.u[cell_of_face(level, face, i, true)] = value; });
    default:
      // A cell that is sent may be computed anew when it has been.
      if (!crew.wait_for(sends) || !crew.wait_for(locals) || !crew.wait_for(arrivals)) return false;
      if (work.then == Then::smooth)
        do_part(SmoothWork{level, static_cast<int>(task.step % 2)}, tasks, task.index);
      else if (work.then == Then::restrict_residual)
        do_part(RestrictWork{level, seen(work.other)}, tasks, task.index);
      else
        do_part(InterpolateWork{seen(work.other), level}, tasks, task.index);
      return true;
  }
}

ISTHMUS_DEVICE_FUNCTION void fused(const FusedWork& work) {
  isthmus::device::run_fused(work.fusion, work.port,
                             [&](const isthmus::device::Task& task, const isthmus::device::Crew& crew) {
                               return fused_task(work, task, crew);
                             });
}

}  // namespace multigrid
