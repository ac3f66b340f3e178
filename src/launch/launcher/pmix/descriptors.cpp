#include "launch/launcher/pmix/descriptors.hpp"

#include <fcntl.h>

#include <filesystem>
#include <system_error>

#include "base/whole_number.hpp"

namespace isthmus::launch {

std::set<int> inheritable_descriptors() {
  std::set<int> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    const auto fd = whole_number<int>(entry->path().filename().native());
    const int flags = fd ? ::fcntl(*fd, F_GETFD) : -1;
    if (flags >= 0 && !(flags & FD_CLOEXEC)) found.insert(*fd);
  }
  return found;
}

void keep_new_descriptors(const std::set<int>& before) {
  for (const int fd : inheritable_descriptors())
    if (!before.contains(fd)) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

}  // namespace isthmus::launch
