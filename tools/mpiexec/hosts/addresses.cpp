#include "hosts/addresses.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace isthmus::mpiexec {
namespace {

constexpr int connect_milliseconds = 4000;
/// For all names to be found.
constexpr std::chrono::seconds lookup_patience(1);
constexpr std::size_t most_lookups_at_once = 16;

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
  void operator()(ifaddrs* list) const { ::freeifaddrs(list); }
};
using Resolved = std::unique_ptr<addrinfo, FreeAddresses>;

Resolved resolve(const std::string& name, std::uint16_t port, int type) {
  addrinfo hints{};
  hints.ai_socktype = type;
  addrinfo* list = nullptr;
  const bool found = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &list) == 0;
  return Resolved(found ? list : nullptr);
}

/// "" for what is no IP address.
std::string numeric(const sockaddr* address) {
  std::array<char, NI_MAXHOST> text{};
  const bool is_v4 = address && address->sa_family == AF_INET;
  if (!address || (!is_v4 && address->sa_family != AF_INET6)) return {};
  const socklen_t length = is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return ::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0
             ? text.data()
             : "";
}

/// The address that a packet to `host` would come from; nothing is sent.
std::string source_towards(const std::string& host) {
  constexpr std::uint16_t discard = 9;
  const Resolved target = resolve(host, discard, SOCK_DGRAM);
  if (!target) return {};
  const UniqueFd socket(::socket(target->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (::connect(socket.get(), target->ai_addr, target->ai_addrlen) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0)
    return {};
  return numeric(reinterpret_cast<const sockaddr*>(&own));
}

/// Of all interfaces that are up, loopback last; each once.
std::vector<std::string> own_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) first = nullptr;
  const std::unique_ptr<ifaddrs, FreeAddresses> owner(first);
  std::vector<std::string> result;
  for (const unsigned loopback : {0U, static_cast<unsigned>(IFF_LOOPBACK)})
    for (const ifaddrs* entry = first; entry; entry = entry->ifa_next) {
      if (!(entry->ifa_flags & IFF_UP) || (entry->ifa_flags & IFF_LOOPBACK) != loopback) continue;
      std::string address = numeric(entry->ifa_addr);
      if (!address.empty() && std::ranges::find(result, address) == result.end())
        result.push_back(std::move(address));
    }
  return result;
}

/// Who has asked for names may go on without those that nobody answers for: what threads wait for then is
/// theirs alone.
class SourceLookups {
 public:
  /// What has been found of `source_towards` each host in time; "" for the others.
  static std::vector<std::string> find(const std::vector<std::string>& hosts) {
    const auto lookups = std::make_shared<SourceLookups>(hosts);
    for (std::size_t i = 0; i < std::min(hosts.size(), most_lookups_at_once); ++i) {
      try {
        std::thread([lookups] { lookups->work(); }).detach();
      } catch (const std::system_error&) {
        break;  // those that there are do it
      }
    }
    return lookups->wait();
  }
  explicit SourceLookups(const std::vector<std::string>& hosts)
      : hosts_(hosts), found_(hosts.size()), left_(hosts.size()) {}

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (!is_over_ && next_ < hosts_.size()) {
      const std::size_t which = next_++;
      lock.unlock();
      std::string source = source_towards(hosts_[which]);
      lock.lock();
      found_[which] = std::move(source);
      if (--left_ == 0) all_found_.notify_one();
    }
  }
  std::vector<std::string> wait() {
    std::unique_lock lock(mutex_);
    all_found_.wait_for(lock, lookup_patience, [this] { return left_ == 0; });
    is_over_ = true;
    return found_;
  }

  const std::vector<std::string> hosts_;
  std::mutex mutex_;
  std::condition_variable all_found_;
  std::vector<std::string> found_;
  std::size_t next_ = 0, left_;
  bool is_over_ = false;
};

/// 0 or an errno.
int connect_within(const UniqueFd& socket, const addrinfo& address) {
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waited_for{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&waited_for, 1, connect_milliseconds) != 1) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

}  // namespace

std::expected<Listener, std::string> Listener::open() {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int no = 0;
  ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  socklen_t length = sizeof address;
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    address.sin6_family = AF_INET;  // a kernel without IPv6: port and family lie at the same place
    length = sizeof(sockaddr_in);
    socket = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) socket.reset();
  }
  if (!socket || ::listen(socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return std::unexpected(fmt::format("cannot listen for the other hosts: {}", std::strerror(errno)));
  return Listener{std::move(socket), ntohs(address.sin6_port)};
}

std::vector<std::vector<std::string>> addresses_towards(const std::vector<std::string>& hosts) {
  const std::vector<std::string> own = own_addresses();
  std::vector<std::vector<std::string>> result;
  for (const std::string& source : SourceLookups::find(hosts)) {
    std::vector<std::string>& addresses = result.emplace_back();
    if (!source.empty()) addresses.push_back(source);
    for (const std::string& address : own)
      if (address != source) addresses.push_back(address);
  }
  return result;
}

std::expected<UniqueFd, std::string> connect_to_any(const std::vector<std::string>& addresses,
                                                    std::uint16_t port) {
  std::string reasons;
  for (const std::string& name : addresses) {
    const Resolved target = resolve(name, port, SOCK_STREAM);
    int error = EADDRNOTAVAIL;
    if (target) {
      UniqueFd socket(::socket(target->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      error = connect_within(socket, *target);
      if (error == 0) return socket;
    }
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", name, std::strerror(error));
  }
  return std::unexpected(reasons);
}

}  // namespace isthmus::mpiexec
