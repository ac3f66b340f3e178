#include "channel/network/tcp/out_line.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace isthmus::network {

OutLine::Item OutLine::item(const Frame& frame, std::span<const std::byte> header,
                            std::span<const std::byte> bytes, std::optional<Token> token) noexcept {
  Item made{.front = {}, .front_bytes = sizeof frame + header.size(), .bytes = bytes, .token = token};
  std::memcpy(made.front.data(), &frame, sizeof frame);
  std::ranges::copy(header, made.front.data() + sizeof frame);
  return made;
}

int OutLine::write_front() noexcept {
  const Item& item = items_.front();
  std::array<iovec, 2> parts;
  std::size_t count = 0;
  if (written_ < item.front_bytes)
    parts[count++] = {const_cast<std::byte*>(item.front.data()) + written_, item.front_bytes - written_};
  const std::size_t behind = std::max(written_, item.front_bytes) - item.front_bytes;
  if (behind < item.bytes.size())
    parts[count++] = {const_cast<std::byte*>(item.bytes.data()) + behind, item.bytes.size() - behind};
  const msghdr message{.msg_name = nullptr,
                       .msg_namelen = 0,
                       .msg_iov = parts.data(),
                       .msg_iovlen = count,
                       .msg_control = nullptr,
                       .msg_controllen = 0,
                       .msg_flags = 0};
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? would_block : errno;
  written_ += static_cast<std::size_t>(sent);
  return 0;
}

}  // namespace isthmus::network
