#include "streams/input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace isthmus::mpiexec {

Input::Input() : nothing_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  int ends[2];
  if (!::isatty(STDIN_FILENO) || ::pipe2(ends, O_CLOEXEC) != 0) return;
  reader_ = UniqueFd(ends[0]);
  writer_ = UniqueFd(ends[1]);
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
}

/// In the background, reading would stop mpiexec. When it comes to the foreground, SIGCONT wakes it up.
bool Input::foreground() const {
  return ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

void Input::prepare(std::vector<pollfd>& waited_for) const {
  if (!writer_) return;
  if (!pending_.empty())
    waited_for.push_back({.fd = writer_.get(), .events = POLLOUT, .revents = 0});
  else if (!at_end_ && foreground())
    waited_for.push_back({.fd = STDIN_FILENO, .events = POLLIN, .revents = 0});
}

void Input::react() {
  if (!writer_) return;
  pollfd terminal{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (pending_.empty() && !at_end_ && foreground() && ::poll(&terminal, 1, 0) == 1) {
    std::array<char, 4096> buffer;
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count > 0) pending_.assign(buffer.data(), static_cast<std::size_t>(count));
    at_end_ = count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
  }
  if (!pending_.empty()) {
    const ssize_t count = ::write(writer_.get(), pending_.data(), pending_.size());
    if (count > 0) pending_.erase(0, static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR && errno != EAGAIN) {  // rank 0 has closed it
      at_end_ = true;
      pending_.clear();
    }
  }
  if (at_end_ && pending_.empty()) writer_.reset();
}

}  // namespace isthmus::mpiexec
