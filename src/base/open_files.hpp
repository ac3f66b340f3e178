#pragma once

#include <sys/resource.h>

#include <algorithm>

namespace isthmus {

/// Raises this process's limit of open files to at least `needed`, as far as its hard limit goes. Whether
/// there is room for more than before.
inline bool allow_open_files(rlim_t needed) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= std::min(needed, limit.rlim_max))
    return false;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace isthmus
