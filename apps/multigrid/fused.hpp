// Several exchanges, and what is computed behind each, in one kernel whose blocks send, fill in what is
// local, wait for what arrives, and compute (<isthmus/fuse.cuh>): for nvcc and for the host's twin.
#pragma once

#include <isthmus/fuse.cuh>

#include "work.hpp"

namespace multigrid {

enum class Then : unsigned { smooth, restrict_residual, interpolate };

// In this order: who sends comes before who waits for others.
enum Role : unsigned { sends, locals, arrivals, computes, role_count };

struct FusedWork {
  static constexpr const char* kernel = "multigrid_fused";
  static constexpr int turn_count = 2;
  static constexpr unsigned most_parts = 8;  // of a face

  isthmus::device::DevicePort port;
  isthmus::device::Fusion fusion;
  Level level;  // whose layers are filled
  Level other;  // the coarser one where a residual is restricted, the finer one where it is interpolated
  Then then;
  unsigned first_turn;
  int neighbours[face_count];  // -1: none
  unsigned parts;              // of a face, each with a message of its own
  unsigned share;
  unsigned first_signal;
  // Of the share: a place for each face that goes out, then one for each that comes in, of each turn.
  char* memory;
  unsigned long long face_bytes;

  APPLICATION_DEVICE unsigned long long place_out(int face) const {
    return static_cast<unsigned>(face) * face_bytes;
  }
  APPLICATION_DEVICE unsigned long long place_in(unsigned turn, int face) const {
    return ((1 + turn) * face_count + static_cast<unsigned>(face)) * face_bytes;
  }
  APPLICATION_DEVICE unsigned signal(unsigned turn, int face, unsigned part) const {
    return first_signal + (turn * face_count + static_cast<unsigned>(face)) * parts + part;
  }
};

// The points of a part of a face.
struct Run {
  long begin, end;
};
APPLICATION_DEVICE Run run_of(long points, unsigned parts, unsigned part) {
  return {points * part / parts, points * (part + 1) / parts};
}

// Of the points of `Work`, those of one of `tasks` tasks, by a block.
template <class Work>
ISTHMUS_DEVICE_FUNCTION void do_part(const Work& work, unsigned tasks, unsigned task) {
  const isthmus::device::ByBlock by;
  const Run run = run_of(work.points(), tasks, task);
  for (long i = run.begin + by.index(); i < run.end; i += by.size())
    work.point(i);
}

ISTHMUS_DEVICE_FUNCTION Level seen(Level level) {
  level.u = isthmus::device::see(level.u);
  level.f = isthmus::device::see(level.f);
  return level;
}

// The face and part of a task: faces without neighbours are left out.
ISTHMUS_DEVICE_FUNCTION int face_of(const FusedWork& work, unsigned task, unsigned& part) {
  part = task % work.parts;
  int face = 0;
  for (unsigned left = task / work.parts; work.neighbours[face] < 0 || left > 0; ++face)
    if (work.neighbours[face] >= 0) --left;
  return face;
}

ISTHMUS_DEVICE_FUNCTION bool send_part(const FusedWork& work, const Level& level, unsigned turn,
                                       unsigned task) {
  const isthmus::device::ByBlock by;
  unsigned part = 0;
  const int face = face_of(work, task, part);
  const Run run = run_of(points_of_face(level, face), work.parts, part);
  char* const out = work.memory + work.place_out(face);
  auto* const values = reinterpret_cast<double*>(isthmus::device::see(out));
  for (long i = run.begin + by.index(); i < run.end; i += by.size())
    values[i] = level.u[cell_of_face(level, face, i, false)];
  by.sync();
  const unsigned long long from = static_cast<unsigned long long>(run.begin) * sizeof(double);
  return work.port.put_with_signal(
      by, {work.share, work.neighbours[face], work.place_in(turn, face ^ 1) + from}, out + from,
      static_cast<unsigned long long>(run.end - run.begin) * sizeof(double),
      work.signal(turn, face ^ 1, part), 1);
}

ISTHMUS_DEVICE_FUNCTION bool receive_part(const FusedWork& work, const Level& level, unsigned turn,
                                          unsigned task) {
  const isthmus::device::ByBlock by;
  unsigned part = 0;
  const int face = face_of(work, task, part);
  if (!work.port.take(by, work.signal(turn, face, part), 1)) return false;
  const Run run = run_of(points_of_face(level, face), work.parts, part);
  const auto* const values =
      reinterpret_cast<const double*>(isthmus::device::see(work.memory + work.place_in(turn, face)));
  for (long i = run.begin + by.index(); i < run.end; i += by.size())
    level.u[cell_of_face(level, face, i, true)] = values[i];
  return true;
}

ISTHMUS_DEVICE_FUNCTION bool fused_task(const FusedWork& work, const isthmus::device::Task& task,
                                        const isthmus::device::Crew& crew) {
  const Level level = seen(work.level);
  // The places and signals of two exchanges in a row differ: who writes to one again has heard that what was
  // there has been read.
  const unsigned turn = (work.first_turn + task.step) % FusedWork::turn_count;
  const unsigned tasks = work.fusion.tasks[task.role];
  if (task.role != computes && !crew.wait_for_last(computes)) return false;
  switch (task.role) {
    case sends:
      return send_part(work, level, turn, task.index);
    case locals: {
      LocalWork local{level, {}};
      for (int face = 0; face < face_count; ++face)
        local.is_remote[face] = work.neighbours[face] >= 0;
      do_part(local, tasks, task.index);
      return true;
    }
    case arrivals:
      return receive_part(work, level, turn, task.index);
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
