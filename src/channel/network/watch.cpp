#include "channel/network/watch.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace isthmus::network {
namespace {

/// Connections taken at one look: the rest waits in the kernel's queue.
constexpr int accepted_at_once = 256;

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

/// How a connection ends behind which nobody is heard: not one that the other kernel has ended.
bool is_silence(int error) {
  return error != 0 && error != ECONNRESET && error != EPIPE;
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

Result<Watch> Watch::open(Identity self, std::uint64_t token, std::chrono::milliseconds patience) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener) return refused("socket", errno);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  socklen_t bytes = sizeof name;
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &bytes) != 0)
    return refused("a TCP port to listen on", errno);
  Watch watch(self, token, ntohs(name.sin_port), patience);
  watch.listener_ = std::move(listener);
  watch.events_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!watch.events_) return refused("epoll_create1", errno);
  watch.timer_ = UniqueFd(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!watch.timer_) return refused("timerfd_create", errno);
  for (const int descriptor : {watch.listener_.get(), watch.timer_.get()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
    if (epoll_ctl(watch.events_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
      return refused("epoll_ctl", errno);
  }
  return watch;
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
    add({std::move(line), State::connecting, peer, address.token, 0}, EPOLLOUT);
  }
}

void Watch::end(PeerId peer) {
  std::erase_if(lines_, [peer](const auto& entry) {
    return entry.second.state != State::accepted && entry.second.peer == peer;
  });
}

void Watch::accept_all() {
  for (int taken = 0; taken < accepted_at_once; ++taken) {
    UniqueFd line(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (line)
      welcome(std::move(line));
    else if (errno != EINTR && errno != ECONNABORTED && !make_room(errno))
      return;
  }
}

/// Whether it is worth another try. Where nothing is left for us the listener rests: it would wake a sleeper
/// again and again for a connection that cannot be taken.
bool Watch::make_room(int error) {
  if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM) return false;
  if (drop_oldest_stranger()) return true;
  rests_ = true;
  listen_for(0);
  tick_while_needed();
  return false;
}

void Watch::listen_for(std::uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = listener_.get()}};
  epoll_ctl(events_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
}

/// Peers say hello at once, so those that have waited in the queue are strangers to nobody.
void Watch::welcome(UniqueFd socket) {
  keep_alive(socket.get());
  Line line{std::move(socket), State::accepted, 0, token_, 0};
  int error = 0;
  if (!hear(line, error)) return;
  const bool stranger = line.state == State::accepted;
  if (stranger && strangers() >= strangers_limit) drop_oldest_stranger();
  add(std::move(line), EPOLLIN);
  if (stranger) tick_while_needed();
}

std::size_t Watch::strangers() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(lines_, [](const auto& entry) { return entry.second.state == State::accepted; }));
}

bool Watch::drop_oldest_stranger() {
  auto oldest = lines_.end();
  for (auto at = lines_.begin(); at != lines_.end(); ++at)
    if (at->second.state == State::accepted &&
        (oldest == lines_.end() || at->second.since < oldest->second.since))
      oldest = at;
  if (oldest == lines_.end()) return false;
  lines_.erase(oldest);
  return true;
}

void Watch::drop_silent_strangers() {
  const auto latest = Clock::now() - patience_;
  std::erase_if(lines_, [&](const auto& entry) {
    return entry.second.state == State::accepted && entry.second.since <= latest;
  });
}

void Watch::tick_while_needed() {
  const bool needed = rests_ || strangers() > 0;
  if (needed == ticks_) return;
  const time_t second = needed ? 1 : 0;
  const itimerspec times{.it_interval = {.tv_sec = second, .tv_nsec = 0},
                         .it_value = {.tv_sec = second, .tv_nsec = 0}};
  timerfd_settime(timer_.get(), 0, &times, nullptr);
  ticks_ = needed;
}

bool Watch::say_hello(Line& line) {
  if (getrandom(&line.nonce, sizeof line.nonce, 0) != sizeof line.nonce) return false;
  wire::WatchHello hello{.sender = self_.rank, .nonce = line.nonce};
  hello.proof = hello.proof_of(line.token, wire::WatchHello::Way::ask);
  return ::send(line.socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
}

bool Watch::answer(const Line& line, std::uint64_t nonce) {
  wire::WatchHello hello{.sender = self_.rank, .nonce = nonce};
  hello.proof = hello.proof_of(token_, wire::WatchHello::Way::answer);
  return ::send(line.socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
}

bool Watch::hear(Line& line, int& error) {
  wire::WatchHello hello;
  // A hello is one segment: what comes in pieces is none.
  const ssize_t bytes = recv(line.socket.get(), &hello, sizeof hello, 0);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  error = bytes < 0 ? errno : 0;
  if (bytes <= 0 || line.state == State::met || bytes != sizeof hello) return false;
  const bool accepted = line.state == State::accepted;
  const bool known = accepted
                         ? hello.sender < self_.ranks && hello.is_proved(token_, wire::WatchHello::Way::ask)
                         : hello.sender == line.peer && hello.nonce == line.nonce &&
                               hello.is_proved(line.token, wire::WatchHello::Way::answer);
  if (!known) return false;
  line.peer = hello.sender;
  if (accepted && !answer(line, hello.nonce)) return false;
  line.state = State::met;
  return true;
}

bool Watch::has_other_line(PeerId peer, int socket) const {
  for (const auto& [other, line] : lines_)
    if (other != socket && line.state == State::met && line.peer == peer) return true;
  return false;
}

/// Whether with `line`, on which nobody has proved himself, the last ends that may have led to a host that is
/// silent now. A connection that was never taken says nothing: a firewall may be there.
bool Watch::leaves_no_hope(Line& line, int error) {
  if (line.state != State::connecting && line.state != State::asked) return false;
  if (line.state == State::asked && is_silence(error)) line.silence = true;
  if (!line.silence) return false;
  bool is_last = true;
  for (auto& [socket, other] : lines_) {
    if (&other == &line || other.state == State::accepted || other.peer != line.peer) continue;
    other.silence = true;
    is_last = false;
  }
  return is_last;
}

void Watch::on_event(int socket) {
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
  // A line that has not answered may lead to another host of the same address, or to a stranger's service. Of
  // several lines to the same process, over several addresses or from both sides, who has made them closes
  // all but one.
  const bool counts = line.state == State::met && !has_other_line(line.peer, socket);
  if (counts || leaves_no_hope(line, error)) {
    const bool closed = counts && !is_silence(error);
    losses_.push_back({line.peer, closed,
                       closed ? "its process has ended or left the job"
                              : std::string("nothing is heard from its host (") +
                                    std::strerror(is_silence(error) ? error : ETIMEDOUT) + ")"});
  }
  lines_.erase(found);
}

void Watch::on_tick() {
  std::uint64_t times = 0;
  if (::read(timer_.get(), &times, sizeof times) != sizeof times) return;
  drop_silent_strangers();
  if (std::exchange(rests_, false)) listen_for(EPOLLIN);
  tick_while_needed();
}

std::vector<Watch::Loss> Watch::look() {
  std::array<epoll_event, 32> events;
  for (;;) {
    const int count = epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
      const int socket = events[static_cast<std::size_t>(i)].data.fd;
      if (socket == listener_.get())
        accept_all();
      else if (socket == timer_.get())
        on_tick();
      else
        on_event(socket);
    }
    if (count < static_cast<int>(events.size())) return std::exchange(losses_, {});
  }
}

}  // namespace isthmus::network
