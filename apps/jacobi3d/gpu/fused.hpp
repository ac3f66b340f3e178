// Iterations in one kernel, whose blocks send the faces, compute what needs no others, wait for these, and
// compute the rest (<isthmus/fuse.cuh>): for nvcc and for the host's twin.
#pragma once

#include "common/gpu/fused.hpp"
#include "work.hpp"

namespace jacobi::gpu {

// In this order: who sends comes before who waits for others. The rim: the points beside what arrives.
enum Role : unsigned { sends, inner, arrivals, rim, role_count };

// A box of points of a block, from `first` to `last` along each axis.
struct Box {
  int first[3], last[3];

  JACOBI_DEVICE int extent(int axis) const {
    return last[axis] < first[axis] ? 0 : last[axis] - first[axis] + 1;
  }
  JACOBI_DEVICE long points() const { return static_cast<long>(extent(0)) * extent(1) * extent(2); }
  // A division of 32 bits takes a fraction of one of 64: `Number` is what holds all points.
  template <class Number>
  JACOBI_DEVICE void place(Number i, int at[3]) const {
    const auto x = static_cast<Number>(extent(0));
    const auto y = static_cast<Number>(extent(1));
    at[0] = first[0] + static_cast<int>(i % x);
    at[1] = first[1] + static_cast<int>(i / x % y);
    at[2] = first[2] + static_cast<int>(i / x / y);
  }
};

struct FusedWork {
  static constexpr const char* kernel = "jacobi_fused";
  static constexpr unsigned most_steps = 32;

  isthmus::device::DevicePort port;
  isthmus::device::Fusion fusion;
  Shape shape;
  double* fields[2];  // of the first step: the current values, and the older ones
  const double* source;
  double weights[most_steps];
  unsigned long long* largest;  // as SweepWork's, of the last step
  unsigned first_turn;
  apps::gpu::KernelMail mail;  // a route for each face

  // The points that need nothing of a neighbour's.
  JACOBI_DEVICE Box inner_box() const {
    const int length[3] = {shape.x, shape.y, shape.z};
    Box box{};
    for (int axis = 0; axis < 3; ++axis) {
      box.first[axis] = mail.peers[2 * axis] >= 0 ? 2 : 1;
      box.last[axis] = length[axis] - (mail.peers[2 * axis + 1] >= 0 ? 1 : 0);
    }
    return box;
  }
  // The others are beside one face or several, and are counted at the last of these.
  JACOBI_DEVICE Box rim_box(int face) const {
    Box box = inner_box();
    const int axis = face / 2;
    const int length[3] = {shape.x, shape.y, shape.z};
    for (int other = 0; other < axis; ++other) {
      box.first[other] = 1;
      box.last[other] = length[other];
    }
    const int at = face % 2 == 0 ? 1 : length[axis];
    // One layer of points is the lower face's and the upper one's.
    const bool is_twice = face % 2 == 1 && at == 1 && mail.peers[face - 1] >= 0;
    box.first[axis] = at;
    box.last[axis] = mail.peers[face] < 0 || is_twice ? at - 1 : at;
    return box;
  }
  JACOBI_DEVICE long rim_points() const {
    long points = 0;
    for (int face = 0; face < face_count; ++face)
      points += rim_box(face).points();
    return points;
  }
};

// The larger of what is there and what each thread has. By all threads of a block.
ISTHMUS_DEVICE_FUNCTION void raise(unsigned long long* to, unsigned long long value) {
#ifdef __CUDACC__
  for (int step = 16; step > 0; step /= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffff'ffffU, value, step);
    if (other > value) value = other;
  }
  if (isthmus::device::ByWarp{}.index() == 0) atomicMax(to, value);
#else
  unsigned long long there = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (there < value &&
         !__atomic_compare_exchange_n(to, &there, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#endif
}

// One iteration, as one block of threads sees it.
class FusedStep {
 public:
  ISTHMUS_DEVICE_FUNCTION FusedStep(const FusedWork& work, unsigned step)
      : work_(work),
        turn_((work.first_turn + step) % apps::gpu::KernelMail::turn_count),
        sweep_{work.shape,
               isthmus::device::see(work.fields[step % 2]),
               isthmus::device::see(work.fields[1 - step % 2]),
               isthmus::device::see(work.source),
               work.weights[step],
               work.largest && step + 1 == work.fusion.steps ? isthmus::device::see(work.largest) : nullptr} {
  }

  ISTHMUS_DEVICE_FUNCTION bool do_task(const isthmus::device::Task& task,
                                       const isthmus::device::Crew& crew) const {
    // A layer may be filled anew, and a value computed anew, when the last step has read it.
    if (!crew.wait_for_last(rim)) return false;
    switch (task.role) {
      case sends:
        return send(task.index);
      case inner:
        return crew.wait_for_last(inner) && sweep_inner(task.index);
      case arrivals:
        return receive(task.index);
      default:
        return crew.wait_for(sends) && crew.wait_for(arrivals) && crew.wait_for_last(inner) &&
               sweep_rim(task.index);
    }
  }

 private:
  // Each true, but where the port was ended.
  ISTHMUS_DEVICE_FUNCTION bool send(unsigned task) const {
    return work_.mail.send_values<double>(
        work_.port, turn_, task, [&](int face) { return points_of_face(work_.shape, face); },
        [&](int face, long i) {
          return sweep_.now[face_point(work_.shape, face, static_cast<int>(i), false)];
        });
  }
  ISTHMUS_DEVICE_FUNCTION bool receive(unsigned task) const {
    auto* const now = const_cast<double*>(sweep_.now);
    return work_.mail.take_values<double>(
        work_.port, turn_, task, [&](int face) { return points_of_face(work_.shape, face); },
        [&](int face, long i, double value) {
          now[face_point(work_.shape, face, static_cast<int>(i), true)] = value;
        });
  }
  ISTHMUS_DEVICE_FUNCTION bool sweep_inner(unsigned task) const {
    const Box box = work_.inner_box();
    note(sweep_box(box, run(box.points(), work_.fusion.tasks[inner], task)));
    return true;
  }
  ISTHMUS_DEVICE_FUNCTION bool sweep_rim(unsigned task) const {
    const auto [begin, end] = run(work_.rim_points(), work_.fusion.tasks[rim], task);
    unsigned long long largest = 0;
    long before = 0;  // points of earlier faces
    for (int face = 0; face < face_count; ++face) {
      const Box box = work_.rim_box(face);
      const long points = box.points();
      const long from = begin > before ? begin - before : 0;
      const long to = end - before < points ? end - before : points;
      const unsigned long long here = sweep_box(box, {from, to});
      if (here > largest) largest = here;
      before += points;
    }
    note(largest);
    return true;
  }

  ISTHMUS_DEVICE_FUNCTION static apps::gpu::Run run(long points, unsigned parts, unsigned part) {
    return apps::gpu::run_of(points, parts, part);
  }
  // The largest change, as bits.
  ISTHMUS_DEVICE_FUNCTION unsigned long long sweep_box(const Box& box, apps::gpu::Run points) const {
    return box.points() < 1L << 32 ? sweep_points<unsigned>(box, points)
                                   : sweep_points<unsigned long>(box, points);
  }
  template <class Number>
  ISTHMUS_DEVICE_FUNCTION unsigned long long sweep_points(const Box& box, apps::gpu::Run points) const {
    const isthmus::device::ByBlock by;
    unsigned long long largest = 0;
    for (long i = points.begin + by.index(); i < points.end; i += by.size()) {
      int at[3];
      box.place(static_cast<Number>(i), at);
      const unsigned long long change = bits_of(sweep_point(sweep_, at[0], at[1], at[2]));
      if (change > largest) largest = change;
    }
    return largest;
  }
  ISTHMUS_DEVICE_FUNCTION void note(unsigned long long largest) const {
    if (sweep_.largest) raise(sweep_.largest, largest);
  }

  const FusedWork& work_;
  const unsigned turn_;
  const SweepWork sweep_;
};

ISTHMUS_DEVICE_FUNCTION void fused(const FusedWork& work) {
  isthmus::device::run_fused(work.fusion, work.port,
                             [&](const isthmus::device::Task& task, const isthmus::device::Crew& crew) {
                               return FusedStep(work, task.step).do_task(task, crew);
                             });
}

}  // namespace jacobi::gpu
