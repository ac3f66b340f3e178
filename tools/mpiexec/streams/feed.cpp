#include "streams/feed.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace isthmus::mpiexec {

Feed::Feed(std::string first, bool relays) : pending_(std::move(first)), relays_(relays) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  reader_ = UniqueFd(ends[0]);
  writer_ = UniqueFd(ends[1]);
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
}

/// From a terminal only in the foreground: reading would stop mpiexec.
bool Feed::may_read() const {
  return relays_ && pending_.empty() && (!::isatty(STDIN_FILENO) || ::tcgetpgrp(STDIN_FILENO) == ::getpgrp());
}

void Feed::prepare(std::vector<pollfd>& waited_for) const {
  if (!writer_) return;
  if (!pending_.empty())
    waited_for.push_back({.fd = writer_.get(), .events = POLLOUT, .revents = 0});
  else if (may_read())
    waited_for.push_back({.fd = STDIN_FILENO, .events = POLLIN, .revents = 0});
}

void Feed::react() {
  if (!writer_) return;
  pollfd given{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (may_read() && ::poll(&given, 1, 0) == 1) {
    std::array<char, 65536> buffer;
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count > 0) pending_.assign(buffer.data(), static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) relays_ = false;
  }
  if (!pending_.empty()) {
    const ssize_t count = ::write(writer_.get(), pending_.data(), pending_.size());
    if (count > 0) pending_.erase(0, static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR && errno != EAGAIN) {  // nobody reads it
      relays_ = false;
      pending_.clear();
    }
  }
  if (!relays_ && pending_.empty()) writer_.reset();
}

}  // namespace isthmus::mpiexec
