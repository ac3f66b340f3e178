#pragma once

#include <filesystem>
#include <set>
#include <system_error>

#include "base/whole_number.hpp"

namespace isthmus {

/// The descriptors of this process that are open now and for which `wanted(int)` says yes; none where /proc
/// is not there. Another thread may open and close some meanwhile.
template <typename Wanted>
std::set<int> descriptors_where(Wanted wanted) {
  std::set<int> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    const auto fd = whole_number<int>(entry->path().filename().native());
    if (fd && wanted(*fd)) found.insert(*fd);
  }
  return found;
}

}  // namespace isthmus
