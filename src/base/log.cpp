#include "base/log.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <array>

namespace isthmus {

void warn(std::string_view text) noexcept {
  static constexpr std::string_view begin = "isthmus: ", end = "\n";
  const auto piece = [](std::string_view of) {
    return iovec{const_cast<char*>(of.data()), of.size()};  // it is only read
  };
  const std::array line{piece(begin), piece(text), piece(end)};
  // Nothing can be done for a user who has closed stderr.
  [[maybe_unused]] const auto written = ::writev(STDERR_FILENO, line.data(), line.size());
}

}  // namespace isthmus
