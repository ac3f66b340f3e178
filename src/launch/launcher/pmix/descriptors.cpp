#include "launch/launcher/pmix/descriptors.hpp"

#include <fcntl.h>

#include "base/system/descriptors.hpp"

namespace isthmus::launch {

std::set<int> inheritable_descriptors() {
  return descriptors_where([](int fd) {
    const int flags = ::fcntl(fd, F_GETFD);
    return flags >= 0 && !(flags & FD_CLOEXEC);
  });
}

void keep_new_descriptors(const std::set<int>& before) {
  for (const int fd : inheritable_descriptors())
    if (!before.contains(fd)) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

}  // namespace isthmus::launch
