#pragma once

namespace isthmus::vrank {

/// The exit status of a process whose program cannot be run, as shells have it.
inline constexpr int status_cannot_run = 126;

}  // namespace isthmus::vrank
