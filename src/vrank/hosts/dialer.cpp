#include "vrank/hosts/dialer.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace isthmus::vrank {
namespace {

constexpr std::chrono::milliseconds patience{4000};
/// Between one address and the next, where the one does not answer.
constexpr std::chrono::milliseconds stagger{250};

int start_connecting(int socket, const ProcessAddress::Ip& ip, std::uint16_t port) {
  sockaddr_in6 to6{};
  sockaddr_in to4{};
  to6.sin6_family = AF_INET6;
  to4.sin_family = AF_INET;
  to6.sin6_port = to4.sin_port = htons(port);
  std::memcpy(&to6.sin6_addr, ip.data(), ip.size());
  std::memcpy(&to4.sin_addr, ip.data() + 12, 4);
  return is_v4(ip) ? ::connect(socket, reinterpret_cast<const sockaddr*>(&to4), sizeof to4)
                   : ::connect(socket, reinterpret_cast<const sockaddr*>(&to6), sizeof to6);
}

/// What has become of an attempt: 0, or its errno.
int error_of(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

OwnFd ready(OwnFd socket) {
  const int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::fcntl(socket.get(), F_SETFL, 0);
  return socket;
}

}  // namespace

void Dialer::note(const std::string& reason) {
  reasons_ += (reasons_.empty() ? "" : "; ") + reason;
}

void Dialer::fail_with(int error) {
  note("connect: " + std::generic_category().message(error));
  next_begin_ = Clock::now();
}

OwnFd Dialer::begin() {
  const ProcessAddress::Ip& ip = address_.ips[begun_++];
  next_begin_ = Clock::now() + stagger;
  OwnFd socket(own_, own_.open([&] {
    return ::socket(is_v4(ip) ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  }));
  if (!socket) {
    fail_with(errno);
    return {};
  }
  if (start_connecting(socket.get(), ip, address_.port) == 0) return socket;
  if (errno == EINPROGRESS)
    attempts_.push_back({std::move(socket), Clock::now() + patience});
  else
    fail_with(errno);
  return {};
}

void Dialer::wait() const {
  Clock::time_point until = attempts_.front().end;  // they end in the order in which they began
  if (begun_ < address_.ips.size()) until = std::min(until, next_begin_);
  std::vector<pollfd> waited_for;
  waited_for.reserve(attempts_.size());
  for (const Attempt& attempt : attempts_)
    waited_for.push_back({.fd = attempt.socket.get(), .events = POLLOUT, .revents = 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  ::poll(waited_for.data(), waited_for.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
}

OwnFd Dialer::take_made() {
  for (auto each = attempts_.begin(); each != attempts_.end();) {
    pollfd asked{.fd = each->socket.get(), .events = POLLOUT, .revents = 0};
    const bool has_ended = ::poll(&asked, 1, 0) == 1;
    if (!has_ended && Clock::now() < each->end) {
      ++each;
      continue;
    }
    const int error = has_ended ? error_of(each->socket.get()) : ETIMEDOUT;
    OwnFd socket = std::move(each->socket);
    each = attempts_.erase(each);
    if (error == 0) return socket;
    fail_with(error);
  }
  return {};
}

OwnFd Dialer::next() {
  while (true) {
    if (OwnFd made = take_made()) return ready(std::move(made));
    if (begun_ < address_.ips.size() && (attempts_.empty() || Clock::now() >= next_begin_)) {
      if (OwnFd made = begin()) return ready(std::move(made));
    } else if (attempts_.empty()) {
      return {};
    } else {
      wait();
    }
  }
}

}  // namespace isthmus::vrank
