#include "explain/report_filter.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace isthmus::tool {

void ReportFilter::take(std::string_view bytes) {
  held_ += bytes;
  for (;;) {
    const std::size_t begin = held_.find(mark);
    if (begin == std::string::npos) break;
    const std::size_t end = held_.find('\n', begin);
    rest_(std::string_view(held_).substr(0, begin));
    held_.erase(0, begin);
    if (end == std::string::npos) return;
    reports_.push_back(held_.substr(0, end - begin));
    held_.erase(0, end - begin + 1);
  }
  // Its end may be the beginning of the mark.
  std::size_t kept = std::min(held_.size(), mark.size() - 1);
  while (!mark.starts_with(std::string_view(held_).substr(held_.size() - kept)))
    --kept;
  rest_(std::string_view(held_).substr(0, held_.size() - kept));
  held_.erase(0, held_.size() - kept);
}

void ReportFilter::end() {
  rest_(held_);
  held_.clear();
}

void write_errors(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace isthmus::tool
