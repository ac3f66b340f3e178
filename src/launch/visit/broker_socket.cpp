#include "launch/visit/broker_socket.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

namespace isthmus::launch {
namespace {

constexpr std::string_view prefix = "isthmus-";
constexpr std::string_view suffix = ".meet";
constexpr mode_t permissions = 07777;

std::string system_reason(int error) {
  return std::generic_category().message(error);
}

std::string name_of(std::uint64_t socket) {
  std::array<char, 24> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(socket));
  return std::string(prefix) + digits.data();
}

UniqueFd make_socket(int flags) {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
}

/// Lets all users connect to the socket whose file was made with mode 0. Whoever may write to its folder can
/// have replaced the file in the meantime: no link is followed, and nothing is changed but a socket that
/// nobody could use so far, as no other has reason to be.
Result<> open_to_all(const char* path) {
  const UniqueFd file(::open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return fail(ErrorClass::other, system_reason(errno));
  constexpr mode_t connecting = 0222;
  if (S_ISSOCK(status.st_mode) && (status.st_mode & connecting) == connecting)
    return {};  // a file system's own rules
  if (!S_ISSOCK(status.st_mode) || (status.st_mode & permissions) != 0)
    return fail(ErrorClass::other, "somebody has replaced the socket");
  // fchmod refuses such a descriptor.
  const std::string pinned = "/proc/self/fd/" + std::to_string(file.get());
  if (::chmod(pinned.c_str(), 0666) != 0) return fail(ErrorClass::other, "chmod: " + system_reason(errno));
  return {};
}

/// Room for descriptors beside a packet.
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(most_descriptors * sizeof(int))> bytes{};
};

}  // namespace

BrokerAddress BrokerAddress::abstract(std::uint64_t socket) {
  BrokerAddress result;
  result.address_ = UnixAddress::abstract(name_of(socket));
  return result;
}

Result<BrokerAddress> BrokerAddress::in_folder(const std::string& folder, std::uint64_t socket) {
  BrokerAddress result;
  const std::string name = "/" + name_of(socket) + std::string(suffix);
  result.path_ = folder + name;
  std::string reached = result.path_;
  if (reached.size() > UnixAddress::longest) {
    result.folder_ = UniqueFd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!result.folder_) return fail(ErrorClass::other, folder + ": " + system_reason(errno));
    reached = "/proc/self/fd/" + std::to_string(result.folder_.get()) + name;
  }
  result.address_ = UnixAddress::of_file(reached);
  return result;
}

Result<BrokerAddress> BrokerAddress::at(const std::string& path) {
  BrokerAddress result;
  if (path.size() > UnixAddress::longest) return fail(ErrorClass::other, "the path is too long for a socket");
  result.path_ = path;
  result.address_ = UnixAddress::of_file(path);
  return result;
}

Result<UniqueFd> listen_at(const BrokerAddress& address) {
  UniqueFd socket = make_socket(SOCK_NONBLOCK);
  if (!socket) return fail(ErrorClass::other, "socket: " + system_reason(errno));
  const bool has_file = !address.path().empty();
  if (has_file && ::fchmod(socket.get(), 0) != 0)
    return fail(ErrorClass::other, "fchmod: " + system_reason(errno));
  if (::bind(socket.get(), address.address().get(), address.address().size()) != 0)
    return fail(ErrorClass::other,
                (address.path().empty() ? "abstract socket" : address.path()) + ": " + system_reason(errno));
  // The key protects, not the file's mode: in containers the same person has several uids.
  if (has_file)
    if (const auto opened = open_to_all(address.reached()); !opened)
      return fail(ErrorClass::other, address.path() + ": " + opened.error().text());
  if (::listen(socket.get(), SOMAXCONN) != 0)
    return fail(ErrorClass::other, "listen: " + system_reason(errno));
  return socket;
}

Result<UniqueFd> connect_to(const BrokerAddress& address, int seconds) {
  UniqueFd socket = make_socket(0);
  if (!socket) return fail(ErrorClass::other, "socket: " + system_reason(errno));
  const timeval limit{seconds, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  int connected = 0;
  do {
    connected = ::connect(socket.get(), address.address().get(), address.address().size());
  } while (connected != 0 && errno == EINTR);
  if (connected != 0) return fail(ErrorClass::other, system_reason(errno));
  return socket;
}

void sweep_folder(const std::string& folder) noexcept {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), &::closedir);
  if (!entries) return;
  // A socket is a moment older than its queue: only one that has been there for longer was left behind.
  constexpr time_t settled_seconds = 30;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    struct stat status{};
    if (::fstatat(::dirfd(entries.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISSOCK(status.st_mode) || status.st_mtime + settled_seconds > ::time(nullptr))
      continue;
    const std::string path = folder + "/" + entry->d_name;
    if ((status.st_mode & permissions) == 0) ::unlink(path.c_str());  // its maker died as it made it
    if (path.size() > UnixAddress::longest) continue;
    const UnixAddress address = UnixAddress::of_file(path);
    const UniqueFd socket = make_socket(SOCK_NONBLOCK);
    if (socket && ::connect(socket.get(), address.get(), address.size()) != 0 && errno == ECONNREFUSED)
      ::unlink(path.c_str());
  }
}

bool send_packet(int socket, const void* bytes, std::size_t size, std::span<const int> fds) noexcept {
  if (fds.size() > most_descriptors) return false;
  iovec piece{const_cast<void*>(bytes), size};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  Control control;
  if (!fds.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(size);
}

long receive_packet(int socket, void* bytes, std::size_t size, std::span<UniqueFd> fds) noexcept {
  iovec piece{bytes, size};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  Control control;
  if (!fds.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
  }
  const ssize_t received = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (received < 0) return received;
  const cmsghdr* header = !fds.empty() ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    std::size_t next = 0;
    for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= header->cmsg_len; at += sizeof(int)) {
      int taken = -1;
      std::memcpy(&taken, reinterpret_cast<const char*>(header) + at, sizeof taken);
      UniqueFd owned(taken);
      if (next < fds.size()) fds[next++] = std::move(owned);
    }
  }
  return (message.msg_flags & MSG_TRUNC) != 0 ? static_cast<long>(size) + 1 : received;
}

}  // namespace isthmus::launch
