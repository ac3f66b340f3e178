#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace isthmus::coll {

/// After a member has taken back its line: who has read it is seen to have published its own. Members publish
/// before they read another's line, without a fence between (membarrier(2)); this is the fence of all of
/// them.
inline void see_line_readers() noexcept {
  if (::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0) ::usleep(1000);
}

}  // namespace isthmus::coll
