#include "base/system/unix_address.hpp"

#include <algorithm>
#include <cstddef>

namespace isthmus {
namespace {

socklen_t size_with(std::size_t characters) noexcept {
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + characters);
}

}  // namespace

UnixAddress UnixAddress::abstract(std::string_view name) noexcept {
  UnixAddress result;
  name = name.substr(0, longest);
  result.address_.sun_family = AF_UNIX;
  std::ranges::copy(name, result.address_.sun_path + 1);  // behind a zero
  result.size_ = size_with(1 + name.size());
  return result;
}

UnixAddress UnixAddress::of_file(std::string_view path) noexcept {
  UnixAddress result;
  path = path.substr(0, longest);
  result.address_.sun_family = AF_UNIX;
  std::ranges::copy(path, result.address_.sun_path);
  result.size_ = size_with(path.size() + 1);
  return result;
}

Credentials credentials_of(int socket) noexcept {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return {};
  return {credentials.pid, credentials.uid, credentials.gid};
}

}  // namespace isthmus
