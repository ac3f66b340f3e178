#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/error.hpp"
#include "base/system/unix_address.hpp"
#include "base/unique_fd.hpp"

/// UNIX sockets by which processes of one kernel meet: packets of one piece, close-on-exec, never blocking.
namespace isthmus::launch {

/// Where a broker listens.
class BrokerAddress {
 public:
  /// A name that has no file: seen by all processes of its network namespace.
  static BrokerAddress abstract(std::uint64_t socket);
  /// A file in `folder`, seen by all who see the folder.
  static Result<BrokerAddress> in_folder(const std::string& folder, std::uint64_t socket);

  /// A file.
  static Result<BrokerAddress> at(const std::string& path);

  [[nodiscard]] const UnixAddress& address() const noexcept { return address_; }
  /// Empty for an abstract one.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// The path that the address itself has: that of the same file, perhaps through a descriptor of its folder.
  [[nodiscard]] const char* reached() const noexcept { return address_.path(); }

 private:
  UnixAddress address_;
  std::string path_;
  UniqueFd folder_;  ///< through which a path that is too long for the address is reached
};

/// Anybody who sees the address may connect, whatever their user.
Result<UniqueFd> listen_at(const BrokerAddress& address);
/// Waits while the listener's queue is full, for `seconds` at most.
Result<UniqueFd> connect_to(const BrokerAddress& address, int seconds);

/// Removes what brokers that were killed have left in `folder`.
void sweep_folder(const std::string& folder) noexcept;

/// Descriptors beside one packet, at most.
inline constexpr std::size_t most_descriptors = 2;
/// Sends one packet, and `fds` with it. False where it did not leave at once.
bool send_packet(int socket, const void* bytes, std::size_t size, std::span<const int> fds) noexcept;
/// The same with `fd` if there is one.
inline bool send_packet(int socket, const void* bytes, std::size_t size, int fd = -1) noexcept {
  return send_packet(socket, bytes, size, std::span<const int>(&fd, fd >= 0 ? 1 : 0));
}
/// Takes one packet, with as many descriptors as `fds` has room for; what else comes is closed. Its size,
/// `size` + 1 if it is longer, 0 at the end, -1 where there is none.
long receive_packet(int socket, void* bytes, std::size_t size, std::span<UniqueFd> fds) noexcept;
/// The same with one descriptor at most.
inline long receive_packet(int socket, void* bytes, std::size_t size, UniqueFd* fd = nullptr) noexcept {
  return receive_packet(socket, bytes, size, std::span<UniqueFd>(fd, fd ? 1 : 0));
}

}  // namespace isthmus::launch
