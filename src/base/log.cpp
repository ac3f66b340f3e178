#include "base/log.hpp"

#include <unistd.h>

#include <string>

namespace isthmus {

void warn(std::string_view text) noexcept {
  const std::string line = "isthmus: " + std::string(text) + "\n";
  // Nothing can be done for a user who has closed stderr.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace isthmus
