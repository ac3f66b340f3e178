#pragma once

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

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

/// Opens `count` files that are good for nothing; fewer where the process may not open so many. 0.3 us each.
inline std::vector<UniqueFd> open_spare_files(unsigned count) {
  std::vector<UniqueFd> opened;
  opened.reserve(count);
  while (opened.size() < count) {
    UniqueFd next(opened.empty() ? ::open("/", O_PATH | O_CLOEXEC)
                                 : ::fcntl(opened.front().get(), F_DUPFD_CLOEXEC, 0));
    if (!next) break;
    opened.push_back(std::move(next));
  }
  return opened;
}

/// Whether this process may open `count` more files: found by opening them, for a moment.
inline bool can_open_files(unsigned count) {
  return open_spare_files(count).size() == count;
}

/// That `purpose` ("the network needs") takes `count` more files than this process may open.
inline Error too_few_files(unsigned count, const std::string& purpose) {
  return Error(ErrorClass::no_mem, "this process may not open " + std::to_string(count) +
                                       " more files, which " + purpose + " (raise `ulimit -n`)");
}

/// Files that are kept open, so that as many others can be opened when the program has used up its limit.
class FileReserve {
 public:
  FileReserve() = default;
  /// Of `count` files; of none where the program would miss them.
  explicit FileReserve(unsigned count) {
    if (can_open_files(8 * count)) kept_ = open_spare_files(count);
  }

  /// Whether `count` more files can be opened now. Where they cannot, those that are kept are closed first.
  bool make_room(unsigned count) {
    if (can_open_files(count)) return true;
    if (kept_.empty()) return false;
    kept_.clear();
    return can_open_files(count);
  }

 private:
  std::vector<UniqueFd> kept_;
};

}  // namespace isthmus
