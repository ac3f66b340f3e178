#include "launch/region_socket.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

#include "base/settings.hpp"

namespace isthmus::launch {
namespace {

constexpr int patience_seconds = 10;

std::unexpected<Error> cannot(std::string_view path, std::string_view why) {
  return fail(ErrorClass::intern,
              std::string(launcher_variable::region) + "='" + std::string(path) + "': " + std::string(why));
}

std::unexpected<Error> cannot(std::string_view path, const char* step, int error) {
  return cannot(path, std::string(step) + ": " + std::generic_category().message(error) +
                          " (is mpiexec's folder mounted here, and does mpiexec still run?)");
}

Result<UniqueFd> connect_to(std::string_view path) {
  if (path.size() >= longest_socket_path) return cannot(path, "the path is too long for a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return cannot(path, "socket", errno);
  const timeval patience{.tv_sec = patience_seconds, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return cannot(path, "connect", errno);
  return socket;
}

/// Room for one descriptor beside a message.
struct alignas(cmsghdr) DescriptorSpace {
  std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

msghdr message_of(iovec& data, DescriptorSpace& space) {
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space.bytes.data();
  message.msg_controllen = space.bytes.size();
  return message;
}

Result<UniqueFd> receive_descriptor(int socket, std::string_view path) {
  char byte = 0;
  iovec data{.iov_base = &byte, .iov_len = 1};
  DescriptorSpace space;
  msghdr message = message_of(data, space);
  const ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (count < 0) return cannot(path, "recvmsg", errno);
  const cmsghdr* part = CMSG_FIRSTHDR(&message);
  if (count == 0 || !part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS ||
      part->cmsg_len != CMSG_LEN(sizeof(int)))
    return cannot(path, std::string("who listens there has not accepted ") + launcher_variable::key);
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
  return UniqueFd(fd);
}

}  // namespace

std::string key_text(const wire::JobKey& key) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : key) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::optional<wire::JobKey> parse_key(std::string_view text) {
  wire::JobKey key{};
  if (text.size() != 2 * key.size()) return std::nullopt;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const char* const begin = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, key[i], 16);
    if (error != std::errc{} || end != begin + 2) return std::nullopt;
  }
  return key;
}

Result<UniqueFd> fetch_region(const char* path, const char* key) {
  const auto bytes = key ? parse_key(key) : std::nullopt;
  if (!bytes)
    return cannot(path, std::string("is a socket, but ") + launcher_variable::key +
                            (key ? " is not 32 hexadecimal digits" : " is not set") +
                            "; both are set by mpiexec: unset them to run as a job of one rank");
  auto socket = connect_to(path);
  if (!socket) return socket;
  if (::send(socket->get(), bytes->data(), bytes->size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes->size()))
    return cannot(path, "send", errno);
  return receive_descriptor(socket->get(), path);
}

bool hand_over(int connection, int region) {
  char byte = 1;
  iovec data{.iov_base = &byte, .iov_len = 1};
  DescriptorSpace space;
  msghdr message = message_of(data, space);
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(part), &region, sizeof region);
  return ::sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

}  // namespace isthmus::launch
