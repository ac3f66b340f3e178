#include "trace/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/trace_file.hpp"
#include "base/whole_number.hpp"

namespace isthmus::trace {
namespace {

bool is_empty_file(int fd) noexcept {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 0;
}

UniqueFd file_named(const char* text) {
  if (std::strchr(text, '/')) {
    UniqueFd file(::open(text, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    return is_empty_file(file.get()) ? std::move(file) : UniqueFd();
  }
  const auto fd = whole_number<std::uint32_t>(text);
  if (!fd || *fd > std::numeric_limits<int>::max() || !is_empty_file(static_cast<int>(*fd))) return {};
  ::fcntl(static_cast<int>(*fd), F_SETFD, FD_CLOEXEC);
  return UniqueFd(static_cast<int>(*fd));
}

}  // namespace

std::string name_of_file(std::uint32_t rank) {
  return "rank-" + std::to_string(rank) + ".trace";
}

UniqueFd make_file(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
}

UniqueFd take_file_of_launcher() {
  const char* const text = std::getenv(trace_file_variable);
  if (!text) return {};
  UniqueFd file = file_named(text);
  ::unsetenv(trace_file_variable);
  return file;
}

}  // namespace isthmus::trace
