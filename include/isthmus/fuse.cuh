#ifndef ISTHMUS_FUSE_CUH
#define ISTHMUS_FUSE_CUH

#include <isthmus/device.cuh>

/// One kernel with several roles: to compute and send, to poll for what arrives, to unpack it (Agostini,
/// Rossetti, Potluri: GPUDirect Async, section 4.3; docs/device.md).
///
///     __global__ void step(DevicePort port, Fusion fusion, ...) {
///       run_fused(fusion, port, [&](const Task& task, const Crew& crew) {
///         switch (task.role) {
///           case edges:    compute(task.index); return port.put_with_signal(ByBlock{}, ...);
///           case interior: compute_rest(task.index); return true;
///           case arrivals: return port.wait(ByBlock{}, from_left, task.step + 1) && ...;
///           default:       if (!crew.wait_for(arrivals)) return false; unpack(task.index); return true;
///         }
///       });
///     }
///
/// Each block takes a ticket, does what that is for, and takes the next. Tickets are numbers in the order of
/// step, role and task, so whoever holds one knows that all earlier tasks have been begun by blocks that run.
/// A task may wait for earlier ones alone (`wait_for` refuses others), so the earliest that is not done never
/// waits, and a grid of any size, down to one block, comes to its end, on any number of multiprocessors.
/// The same goes across processes if roles that wait for peers stand behind the roles that send to them: no
/// peer waits for what only a later task would send. (The paper has its receiver first, and needs more blocks
/// than there are tasks.)
namespace isthmus::device {

inline constexpr u32 most_roles = 8;

/// A count that many blocks add to and others look at: a line of its own, since looks hold up what is done
/// with the same line.
struct FusionCount {
  u64 value;
  u64 unused[15];
};
/// In memory of the GPU, of `fusion_bytes`, all 0 before the first launch; a launch leaves it so. One launch
/// at a time.
struct FusionState {
  FusionCount next;     ///< ticket
  FusionCount left;     ///< blocks that have found none
  FusionCount done[1];  ///< tasks, by step and role
};

/// A kernel's roles, by value.
struct Fusion {
  FusionState* state;
  u32 steps;
  u32 roles;
  u32 tasks[most_roles];  ///< of each role in a step

  [[nodiscard]] ISTHMUS_DEVICE_ANYWHERE u64 tasks_of_step() const {
    u64 all = 0;
    for (u32 i = 0; i < roles; ++i)
      all += tasks[i];
    return all;
  }
};

[[nodiscard]] ISTHMUS_DEVICE_ANYWHERE constexpr u64 fusion_bytes(u32 steps, u32 roles) {
  return (2 + u64{steps} * roles) * sizeof(FusionCount);
}

struct Task {
  u32 step;
  u32 role;
  u32 index;  ///< of the role's in this step
};

namespace detail {
/// For threads of this GPU.
ISTHMUS_DEVICE_FUNCTION u64 load_count(const u64* from) {
#if defined(__CUDACC__)
  u64 value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
#else
  return load_word(from);
#endif
}
/// Between fruitless looks at a count, longer and longer.
ISTHMUS_DEVICE_FUNCTION void rest(u32 looks) {
#if defined(__CUDACC__)
  __nanosleep(looks < 8 ? 32 * looks : 256);
#else
  static_cast<void>(looks);
  pause();
#endif
}
}  // namespace detail

/// What a task can ask of the others.
class Crew {
 public:
  ISTHMUS_DEVICE_FUNCTION Crew(const Fusion& fusion, const DevicePort& port, const Task& task)
      : fusion_(fusion), port_(port), task_(task) {}

  /// Until all tasks of an earlier role of this step are done. By all threads of the block. Acquire, scope
  /// .gpu: who goes on sees what they have written, and what they have seen of peers. False: the port was
  /// ended, or that role comes no sooner than this task's.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool wait_for(u32 role) const { return wait_for(role, task_.step); }
  /// The same of any role of an earlier step; of the step before the first, all is done.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool wait_for_last(u32 role) const {
    return task_.step == 0 || wait_for(role, task_.step - 1);
  }

 private:
  ISTHMUS_DEVICE_FUNCTION bool wait_for(u32 role, u32 step) const {
    const ByBlock by;
    if (role >= fusion_.roles || (step == task_.step && role >= task_.role))
      return port_.refuse(by, ISTHMUS_DEVICE_BAD_ROLE, ISTHMUS_DEVICE_ROLE, 0, role, 0, 0);
    bool ok = true;
    if (by.index() == 0) {
      const u64* const done = &(see(fusion_.state)->done + u64{step} * fusion_.roles + role)->value;
      for (u32 looks = 1; ok && detail::load_count(done) < fusion_.tasks[role]; ++looks) {
        if (looks % detail::looks_per_question == 0) ok = !port_.is_ended();
        detail::rest(looks);
      }
      detail::fence_gpu();
    }
    return by.all(ok);
  }

  const Fusion& fusion_;
  const DevicePort& port_;
  const Task& task_;
};

namespace detail {
ISTHMUS_DEVICE_FUNCTION Task task_of(const Fusion& fusion, u64 ticket) {
  const u64 in_step = fusion.tasks_of_step();
  Task task{static_cast<u32>(ticket / in_step), 0, 0};
  u64 rest = ticket % in_step;
  while (rest >= fusion.tasks[task.role])
    rest -= fusion.tasks[task.role++];
  task.index = static_cast<u32>(rest);
  return task;
}
}  // namespace detail

/// By all threads of all blocks of a grid: `body(task, crew)` for each task, once, until one returns false in
/// this block: then it does no more, and others that wait for it wait until the port is ended, which its
/// reason should be. What a task has written is released, scope .gpu, to those that wait for it.
template <class Body>
ISTHMUS_DEVICE_FUNCTION void run_fused(const Fusion& fusion, const DevicePort& port, Body body) {
  const ByBlock by;
  FusionState* const state = see(fusion.state);
  const u64 all = fusion.tasks_of_step() * fusion.steps;
  for (;;) {
    const u64 ticket = by.first_has(by.index() == 0 ? detail::take_number(&state->next.value) : 0);
    if (ticket >= all) break;
    const Task task = detail::task_of(fusion, ticket);
    if (!by.all(body(task, Crew(fusion, port, task)))) break;
    if (by.index() == 0) {
      detail::fence_gpu();
      detail::take_number(&state->done[u64{task.step} * fusion.roles + task.role].value);
    }
  }
  // The last one leaves all as it was, for the next launch.
  const bool is_last = by.index() == 0 && detail::take_number(&state->left.value) + 1 == block_count();
  if (by.first_has(is_last ? 1 : 0) == 0) return;
  detail::fence_gpu();
  for (u64 i = by.index(); i < u64{fusion.steps} * fusion.roles; i += by.size())
    state->done[i].value = 0;
  if (by.index() == 0) state->next.value = state->left.value = 0;
}

}  // namespace isthmus::device

#endif
