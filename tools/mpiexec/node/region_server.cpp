#include "node/region_server.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "launch/visit/broker_socket.hpp"

namespace isthmus::mpiexec {
namespace {

/// What a connection gets to ask; a rank does so at once.
constexpr auto client_patience = std::chrono::seconds(10);
/// Strangers beyond these wait in the kernel's queue.
constexpr std::size_t connections_at_once = 64;
/// In answers, where a broker's rank stands.
constexpr std::uint32_t launcher_rank = UINT32_MAX;

}  // namespace

std::expected<RegionServer, std::string> RegionServer::listen(const std::string& parent) {
  std::string folder = parent + "/isthmus.XXXXXX";
  const auto failure = [&](const std::string& why) {
    return std::unexpected(fmt::format("cannot offer the region in a folder of {}: {}", parent, why));
  };
  if (!::mkdtemp(folder.data())) return failure(fmt::format("mkdtemp: {}", std::strerror(errno)));
  // Others may write to `parent`, and replace what is there by a link to a folder of ours: all that follows
  // is done to this descriptor.
  UniqueFd handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!handle || ::fstat(handle.get(), &status) != 0)
    return failure(fmt::format("{}: {}", folder, std::strerror(errno)));
  constexpr mode_t permissions = 07777;
  if (status.st_uid != ::geteuid() || (status.st_mode & permissions) != 0700)
    return failure(fmt::format("somebody has replaced {}", folder));
  RegionServer server(folder, std::move(handle));
  const auto address =
      launch::BrokerAddress::at(fmt::format("/proc/self/fd/{}/{}", server.handle_.get(), socket_name));
  if (!address) return failure(address.error().text());
  auto listener = launch::listen_at(*address);
  if (!listener) return failure(listener.error().text());
  server.listener_ = std::move(*listener);
  // Users differ between containers: the key protects the region, and nobody else can list the folder.
  if (::fchmod(server.handle_.get(), 0711) != 0)
    return failure(fmt::format("chmod: {}", std::strerror(errno)));
  return server;
}

RegionServer::RegionServer(RegionServer&& other) noexcept
    : folder_(std::exchange(other.folder_, {})),
      handle_(std::move(other.handle_)),
      listener_(std::move(other.listener_)) {}

RegionServer::~RegionServer() {
  if (folder_.empty()) return;
  ::unlinkat(handle_.get(), socket_name, 0);
  ::rmdir(folder_.c_str());
}

void RegionServer::serve(int region, int box, const wire::JobKey& key) {
  region_ = region;
  box_ = box;
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
    if (auto reception = launch::Reception::greet(socket.get()))
      connections_.push_back({std::move(socket), Clock::now() + client_patience, std::move(*reception)});
  }
  connections_.remove_if([&](Connection& connection) { return is_done(connection); });
}

/// Whether the connection has had its answer, or shall have none.
bool RegionServer::is_done(Connection& connection) const {
  constexpr std::uint64_t unnamed = 0;
  launch::Reception& reception = connection.reception;
  if (!reception.hear(connection.socket.get(), unnamed)) return true;
  if (!reception.has_request()) return connection.end <= Clock::now();
  if (reception.is_proved(key_)) reception.answer(key_, launcher_rank, region_, box_);
  return true;
}

std::optional<Clock::time_point> RegionServer::deadline() const {
  if (connections_.empty()) return std::nullopt;
  return connections_.front().end;
}

}  // namespace isthmus::mpiexec
