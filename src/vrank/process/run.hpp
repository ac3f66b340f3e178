#pragma once

#include <cstddef>

#include "vrank/rank_memory.hpp"
#include "vrank/scheduler.hpp"

namespace isthmus::vrank {

/// Runs the ranks that mpiexec has given this process, as `arguments[1]` with the arguments behind it, and
/// returns its exit status. `thread_local_room`: bytes directly below the thread pointer that nobody uses.
/// `memory`: of a program whose ranks go on in other processes; null: they stay.
int run_process(int count, char** arguments, std::size_t thread_local_room, const Edge& edge,
                const OwnMemory* memory);

}  // namespace isthmus::vrank
