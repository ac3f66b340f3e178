#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <string_view>

namespace isthmus {

/// The address of a UNIX socket (unix(7)).
class UnixAddress {
 public:
  UnixAddress() = default;
  /// One that has no file: seen by all processes of its network namespace, each of which may take it.
  /// `name`: at most `longest` bytes.
  static UnixAddress abstract(std::string_view name) noexcept;
  /// A file. `path`: at most `longest` bytes.
  static UnixAddress of_file(std::string_view path) noexcept;
  static constexpr std::size_t longest = sizeof(sockaddr_un::sun_path) - 1;

  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&address_); }
  [[nodiscard]] socklen_t size() const noexcept { return size_; }
  /// Of a file.
  [[nodiscard]] const char* path() const noexcept { return address_.sun_path; }

 private:
  sockaddr_un address_{};
  socklen_t size_ = 0;
};

/// Who the kernel says is at the other end of a UNIX socket (SO_PEERCRED), in this process's own namespaces;
/// pid 0 where it is in none of them, or the kernel does not tell; uid and gid are `nobody` then.
struct Credentials {
  static constexpr std::uint32_t nobody = ~std::uint32_t{0};

  std::int32_t pid = 0;
  std::uint32_t uid = nobody;
  std::uint32_t gid = nobody;
};
Credentials credentials_of(int socket) noexcept;

}  // namespace isthmus
