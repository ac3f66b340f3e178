#include "vrank/hosts/address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

namespace isthmus::vrank {
namespace {

constexpr std::size_t most_addresses = 16;
constexpr std::uint32_t address_magic = 0x6869'6d61;

/// What stands before the addresses.
struct Packed {
  std::uint32_t magic;
  std::uint16_t port;
  std::uint16_t count;
  wire::JobKey key;
  Likeness likeness;
};
static_assert(sizeof(Packed) == 56);

std::unexpected<Error> cannot(const char* what) {
  return fail(ErrorClass::other, std::string(what) + ": " + std::generic_category().message(errno));
}

ProcessAddress::Ip ip_of(const sockaddr& address) {
  ProcessAddress::Ip ip{};
  if (address.sa_family == AF_INET6) {
    std::memcpy(ip.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, ip.size());
    return ip;
  }
  ip[10] = ip[11] = 0xff;
  std::memcpy(ip.data() + 12, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  return ip;
}

/// Those of a link need to be told which.
bool is_of_any_use(const ifaddrs& entry) {
  if ((entry.ifa_flags & IFF_UP) == 0 || !entry.ifa_addr) return false;
  if (entry.ifa_addr->sa_family == AF_INET) return true;
  if (entry.ifa_addr->sa_family != AF_INET6) return false;
  return !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr);
}

std::vector<ProcessAddress::Ip> own_ips() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<ProcessAddress::Ip> ips;
  for (const unsigned loopback : {0U, static_cast<unsigned>(IFF_LOOPBACK)})
    for (const ifaddrs* entry = first; entry; entry = entry->ifa_next)
      if ((entry->ifa_flags & IFF_LOOPBACK) == loopback && is_of_any_use(*entry) &&
          ips.size() < most_addresses)
        ips.push_back(ip_of(*entry->ifa_addr));
  return ips;
}

}  // namespace

std::string difference(const Likeness& one, const Likeness& other) {
  if (one.program != other.program) return "the program is another file there";
  if (one.processor != other.processor) return "its processor has other instructions";
  if (one.libraries != other.libraries)
    return "it has other libraries, or has them at other addresses (other versions of them, or of the "
           "kernel)";
  return one.region != other.region ? "its memory for messages is laid out otherwise (settings of Isthmus)"
                                    : "";
}

std::string ProcessAddress::pack() const {
  const Packed head{.magic = address_magic,
                    .port = port,
                    .count = static_cast<std::uint16_t>(ips.size()),
                    .key = key,
                    .likeness = likeness};
  std::string text(reinterpret_cast<const char*>(&head), sizeof head);
  for (const Ip& ip : ips)
    text.append(reinterpret_cast<const char*>(ip.data()), ip.size());
  return text;
}

std::optional<ProcessAddress> ProcessAddress::unpack(std::string_view text) {
  Packed head;
  if (text.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, text.data(), sizeof head);
  text.remove_prefix(sizeof head);
  if (head.magic != address_magic || head.count > most_addresses || text.size() != head.count * sizeof(Ip))
    return std::nullopt;
  ProcessAddress address{.key = head.key, .port = head.port, .ips = {}, .likeness = head.likeness};
  address.ips.resize(head.count);
  if (!text.empty()) std::memcpy(address.ips.data(), text.data(), text.size());
  return address;
}

Result<UniqueFd> listen_at(ProcessAddress& address) {
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  socklen_t length = sizeof any;
  UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int no = 0;
  ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), length) != 0) {
    any.sin6_family = AF_INET;  // a kernel without IPv6: port and family lie at the same place
    length = sizeof(sockaddr_in);
    socket = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), length) != 0) return cannot("bind");
  }
  if (::listen(socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&any), &length) != 0)
    return cannot("listen");
  address.port = ntohs(any.sin6_port);
  address.ips = own_ips();
  return socket;
}

bool is_v4(const ProcessAddress::Ip& ip) noexcept {
  return std::all_of(ip.begin(), ip.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) &&
         ip[10] == 0xff && ip[11] == 0xff;
}

}  // namespace isthmus::vrank
