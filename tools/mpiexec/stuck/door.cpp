#include "stuck/door.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/system/unix_address.hpp"
#include "stuck/door_name.hpp"

namespace isthmus::mpiexec::stuck {
namespace {

/// For a client to take its answer. Strangers beyond these wait in the kernel's queue.
constexpr auto client_patience = std::chrono::seconds(10);
constexpr std::size_t clients_at_once = 16;

bool is_of_own_user(int socket) {
  const Credentials peer = credentials_of(socket);
  return peer.uid == ::geteuid() || peer.uid == 0;
}

}  // namespace

std::string Door::open() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return std::strerror(errno);
  const UnixAddress address = door_of(::getpid());
  if (::bind(socket.get(), address.get(), address.size()) != 0 ||
      ::listen(socket.get(), clients_at_once) != 0)
    return std::strerror(errno);
  listener_ = std::move(socket);
  return {};
}

void Door::answer(const std::string& text) {
  for (Client& client : clients_) {
    if (client.answered) continue;
    client.answered = true;
    client.unsent = text;
  }
  std::erase_if(clients_, serve);
}

bool Door::serve(Client& client) {
  if (Clock::now() >= client.end) return true;
  while (!client.unsent.empty()) {
    const ssize_t sent =
        ::send(client.socket.get(), client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno != EAGAIN && errno != EINTR;
    client.unsent.erase(0, static_cast<std::size_t>(sent));
  }
  return client.answered;
}

void Door::prepare(std::vector<pollfd>& waited_for) const {
  if (listener_ && clients_.size() < clients_at_once)
    waited_for.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
  for (const Client& client : clients_)
    if (!client.unsent.empty())
      waited_for.push_back({.fd = client.socket.get(), .events = POLLOUT, .revents = 0});
}

void Door::react() {
  std::erase_if(clients_, serve);
  bool is_asked = false;
  while (listener_ && clients_.size() < clients_at_once) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) break;
    if (!is_of_own_user(socket.get())) continue;
    clients_.push_back({std::move(socket), Clock::now() + client_patience});
    is_asked = true;
  }
  if (is_asked) asked_.asked(*this);
}

std::optional<Clock::time_point> Door::deadline() const {
  std::optional<Clock::time_point> first;
  for (const Client& client : clients_)
    if (!first || client.end < *first) first = client.end;
  return first;
}

}  // namespace isthmus::mpiexec::stuck
