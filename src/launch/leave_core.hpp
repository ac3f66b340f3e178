#pragma once

#include "launch/job.hpp"

namespace isthmus::launch {

/// For a thread of the library's own that works beside the program's: off the rank's core, where there are
/// others that nobody has been given. On that core it gets a turn only when the program's thread, which may
/// spin in CUDA, has had its time slice: 512 KiB in the order of a stream took 4.3 ms so, and take 0.03
/// beside it; 64 MiB of an allreduce 8.0, and 0.24 (2 x H100).
inline void leave_core(const Job& job) noexcept {
  if (!job.spare_cpus.empty()) static_cast<void>(job.spare_cpus.bind());
}

}  // namespace isthmus::launch
