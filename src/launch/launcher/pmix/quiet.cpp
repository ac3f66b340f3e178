#include "launch/launcher/pmix/quiet.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace isthmus::launch {

QuietStderr::QuietStderr() noexcept {
  const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!nowhere) return;
  stderr_ = UniqueFd(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  if (stderr_) ::dup2(nowhere.get(), STDERR_FILENO);
}

QuietStderr::~QuietStderr() {
  if (stderr_) ::dup2(stderr_.get(), STDERR_FILENO);
}

}  // namespace isthmus::launch
