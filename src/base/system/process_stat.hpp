#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace isthmus {

/// What the kernel says of a process: some fields of /proc/PID/stat (proc(5)).
struct ProcessStat {
  char state = 0;  ///< R, S, D, Z, T, t, ...
  pid_t parent = 0;
  std::uint64_t start_time = 0;  ///< in clock ticks since the machine was started
  std::uint64_t heap_begin = 0;  ///< 0 where the kernel does not tell

  /// Of this process; nothing where /proc does not tell.
  static std::optional<ProcessStat> of_self();
  /// Nothing where there is no such process.
  static std::optional<ProcessStat> of(pid_t pid);
};

}  // namespace isthmus
