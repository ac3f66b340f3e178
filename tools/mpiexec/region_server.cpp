#include "region_server.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "launch/region_socket.hpp"

namespace isthmus::mpiexec {
namespace {

/// What a connection gets to show the key; a rank does so at once.
constexpr auto patience = std::chrono::seconds(10);
/// Strangers beyond these wait in the kernel's queue.
constexpr std::size_t connections_at_once = 64;

/// In time that does not depend on where the two differ.
bool is_key(const std::string& shown, const wire::JobKey& key) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < key.size(); ++i)
    difference |= static_cast<std::uint8_t>(shown[i]) ^ key[i];
  return difference == 0;
}

}  // namespace

std::expected<RegionServer, std::string> RegionServer::listen(const std::string& parent) {
  std::string folder = parent + "/isthmus.XXXXXX";
  const auto failure = [&](const char* step) {
    return std::unexpected(
        fmt::format("cannot offer the region in a folder of {}: {}: {}", parent, step, std::strerror(errno)));
  };
  if (!::mkdtemp(folder.data())) return failure("mkdtemp");
  RegionServer server(folder);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = server.socket_path();
  if (path.size() >= launch::longest_socket_path)
    return std::unexpected(fmt::format("{}: the path is too long for a socket", path));
  std::copy(path.begin(), path.end(), address.sun_path);
  server.listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::bind(server.listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return failure("bind");
  // Users differ between containers: the key protects the region, and nobody else can list the folder.
  if (::chmod(path.c_str(), 0666) != 0 || ::chmod(folder.c_str(), 0711) != 0) return failure("chmod");
  if (::listen(server.listener_.get(), SOMAXCONN) != 0) return failure("listen");
  return server;
}

RegionServer::RegionServer(RegionServer&& other) noexcept
    : folder_(std::exchange(other.folder_, {})), listener_(std::move(other.listener_)) {}

RegionServer::~RegionServer() {
  if (folder_.empty()) return;
  ::unlink(socket_path().c_str());
  ::rmdir(folder_.c_str());
}

void RegionServer::serve(int region, const wire::JobKey& key) {
  region_ = region;
  key_ = key;
}

void RegionServer::prepare(std::vector<pollfd>& waited_for) const {
  if (connections_.size() < connections_at_once)
    waited_for.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
  for (const Connection& connection : connections_)
    waited_for.push_back({.fd = connection.socket.get(), .events = POLLIN, .revents = 0});
}

void RegionServer::react() {
  while (connections_.size() < connections_at_once) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) break;
    connections_.push_back({std::move(socket), Clock::now() + patience, {}});
  }
  connections_.remove_if([&](Connection& connection) { return is_done(connection); });
}

/// Whether the connection has had its answer, or shall have none.
bool RegionServer::is_done(Connection& connection) const {
  char bytes[sizeof(wire::JobKey)];
  const ssize_t count = ::recv(connection.socket.get(), bytes, key_.size() - connection.shown.size(), 0);
  if (count < 0) return errno != EAGAIN && errno != EINTR ? true : connection.end <= Clock::now();
  connection.shown.append(bytes, static_cast<std::size_t>(count));
  if (connection.shown.size() < key_.size()) return count == 0;
  if (is_key(connection.shown, key_)) launch::hand_over(connection.socket.get(), region_);
  return true;
}

std::optional<Clock::time_point> RegionServer::deadline() const {
  if (connections_.empty()) return std::nullopt;
  return connections_.front().end;
}

}  // namespace isthmus::mpiexec
