#include "channel/network/watch.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace isthmus::network {
namespace {

/// Connections that have not said who they are, at most: anyone may connect.
constexpr std::size_t lines_limit = 1U << 16U;

std::unexpected<Error> refused(const char* call, int error) {
  return fail(ErrorClass::other, std::string(call) + ": " + std::strerror(error));
}

bool set(int socket, int level, int option, int value) {
  return setsockopt(socket, level, option, &value, sizeof value) == 0;
}

/// Probes every second after two of silence; gives up after `Watch::silence_limit`, in establishing the
/// connection too.
void keep_alive(int socket) {
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, Watch::silence_limit - 2);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, Watch::silence_limit * 1000);
}

/// IPv4 addresses of the interfaces that are up; the loopback's only where there is no other.
std::vector<std::uint32_t> local_hosts() {
  std::vector<std::uint32_t> hosts;
  std::vector<std::uint32_t> loopback;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return hosts;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_UP) == 0) continue;
    const std::uint32_t host = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr.s_addr;
    auto& list_of_kind = (entry->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : hosts;
    if (list_of_kind.size() < wire::PortAddress::hosts_limit) list_of_kind.push_back(host);
  }
  freeifaddrs(list);
  return hosts.empty() ? loopback : hosts;
}

}  // namespace

Result<Watch> Watch::open(Identity self, std::uint64_t token) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener) return refused("socket", errno);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  socklen_t bytes = sizeof name;
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &bytes) != 0)
    return refused("a TCP port to listen on", errno);
  UniqueFd events(epoll_create1(EPOLL_CLOEXEC));
  if (!events) return refused("epoll_create1", errno);
  epoll_event event{.events = EPOLLIN, .data = {.fd = listener.get()}};
  if (epoll_ctl(events.get(), EPOLL_CTL_ADD, listener.get(), &event) != 0) return refused("epoll_ctl", errno);
  return Watch(self, token, std::move(listener), std::move(events), ntohs(name.sin_port));
}

void Watch::describe(wire::PortAddress& address) const {
  address.watch_port = port_;
  address.hosts = local_hosts();
}

void Watch::add(Line line, std::uint32_t events) {
  const int socket = line.socket.get();
  epoll_event event{.events = events, .data = {.fd = socket}};
  if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, socket, &event) == 0)
    lines_.insert_or_assign(socket, std::move(line));
}

void Watch::begin(PeerId peer, const wire::PortAddress& address) {
  for (const std::uint32_t host : address.hosts) {
    if (address.watch_port == 0) return;
    UniqueFd line(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!line) return;
    keep_alive(line.get());
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = host;
    name.sin_port = htons(address.watch_port);
    if (connect(line.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 &&
        errno != EINPROGRESS)
      continue;
    add({std::move(line), State::connecting, peer, address.token}, EPOLLOUT);
  }
}

void Watch::end(PeerId peer) {
  std::erase_if(lines_, [peer](const auto& entry) {
    return entry.second.state != State::accepted && entry.second.peer == peer;
  });
}

void Watch::accept_all() {
  for (;;) {
    UniqueFd line(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!line) return;
    if (lines_.size() >= lines_limit) continue;
    keep_alive(line.get());
    add({std::move(line), State::accepted, 0, token_}, EPOLLIN);
  }
}

bool Watch::say_hello(Line& line) {
  const wire::WatchHello hello{.token = line.token, .sender = self_.rank};
  return ::send(line.socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
}

bool Watch::hear(Line& line, int& error) {
  wire::WatchHello hello;
  // A hello is one segment: what comes in pieces is none.
  const ssize_t bytes = recv(line.socket.get(), &hello, sizeof hello, 0);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  error = bytes < 0 ? errno : 0;
  if (bytes <= 0 || line.state == State::met || bytes != sizeof hello) return false;
  const wire::WatchHello expected;
  const bool from_expected =
      line.state == State::accepted ? hello.sender < self_.ranks : hello.sender == line.peer;
  if (hello.magic != expected.magic || hello.version != expected.version || hello.token != line.token ||
      !from_expected) {
    error = EPROTO;
    return false;
  }
  if (line.state == State::accepted) {
    line.peer = hello.sender;
    if (!say_hello(line)) return false;
  }
  line.state = State::met;
  return true;
}

bool Watch::has_other_line(PeerId peer, int socket) const {
  for (const auto& [other, line] : lines_)
    if (other != socket && (line.state == State::met || line.state == State::asked) && line.peer == peer)
      return true;
  return false;
}

void Watch::on_event(int socket, std::vector<Loss>& losses) {
  const auto found = lines_.find(socket);
  if (found == lines_.end()) return;
  Line& line = found->second;
  int error = 0;
  socklen_t bytes = sizeof error;
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &bytes);
  if (line.state == State::connecting) {
    if (error == 0 && say_hello(line)) {
      line.state = State::asked;
      epoll_event event{.events = EPOLLIN, .data = {.fd = socket}};
      epoll_ctl(events_.get(), EPOLL_CTL_MOD, socket, &event);
      return;
    }
  } else if (error == 0) {
    const bool asked = line.state == State::asked;
    if (hear(line, error)) {
      // Of several ways to a host, one is enough.
      if (asked && line.state == State::met)
        std::erase_if(lines_, [&](const auto& entry) {
          const Line& other = entry.second;
          return entry.first != socket && other.peer == line.peer &&
                 (other.state == State::connecting || other.state == State::asked);
        });
      return;
    }
  }
  // A line that has not answered may lead to another host of the same address, and of several lines to the
  // same process, over several addresses or from both sides, who has made them closes all but one.
  const bool known = line.state == State::met || (line.state == State::asked && error != EPROTO);
  const bool counts = known && !has_other_line(line.peer, socket);
  if (counts) {
    const bool closed = error == 0 || error == ECONNRESET || error == EPIPE;
    losses.push_back({line.peer, closed,
                      closed ? "its process has ended or left the job"
                             : std::string("nothing is heard from its host (") + std::strerror(error) + ")"});
  }
  lines_.erase(found);
}

std::vector<Watch::Loss> Watch::look() {
  std::vector<Loss> losses;
  std::array<epoll_event, 32> events;
  for (;;) {
    const int count = epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
      const int socket = events[static_cast<std::size_t>(i)].data.fd;
      if (socket == listener_.get())
        accept_all();
      else
        on_event(socket, losses);
    }
    if (count < static_cast<int>(events.size())) return losses;
  }
}

}  // namespace isthmus::network
