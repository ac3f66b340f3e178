#include "channel/network/ucx/doors.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <ucs/async/async_fwd.h>

#include <algorithm>
#include <array>

#include "base/system/descriptors.hpp"

namespace isthmus::network {
namespace {

/// A port of UCX's has one for each network interface; of more, as many in one system call.
constexpr std::size_t sockets_per_look = 64;

}  // namespace

std::set<int> Doors::listening() {
  return descriptors_where([](int fd) {
    int listens = 0;
    socklen_t bytes = sizeof listens;
    return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && listens != 0;
  });
}

Doors::Doors(const std::set<int>& before) {
  for (const int fd : listening())
    if (!before.contains(fd) && ucs_async_modify_handler(fd, static_cast<ucs_event_set_types_t>(0)) == UCS_OK)
      sockets_.push_back(fd);
  open_ = false;
}

bool Doors::somebody_knocks() const {
  std::array<pollfd, sockets_per_look> looked{};
  for (std::size_t from = 0; from < sockets_.size(); from += looked.size()) {
    const std::size_t count = std::min(looked.size(), sockets_.size() - from);
    for (std::size_t i = 0; i < count; ++i)
      looked[i] = {.fd = sockets_[from + i], .events = POLLIN, .revents = 0};
    if (::poll(looked.data(), count, 0) > 0) return true;
  }
  return false;
}

void Doors::turn(bool open) {
  if (open == open_) return;
  const int events = open ? UCS_EVENT_SET_EVREAD | UCS_EVENT_SET_EVERR : 0;
  for (const int fd : sockets_)
    static_cast<void>(ucs_async_modify_handler(fd, static_cast<ucs_event_set_types_t>(events)));
  open_ = open;
}

}  // namespace isthmus::network
