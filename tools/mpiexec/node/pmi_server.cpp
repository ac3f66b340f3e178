#include "node/pmi_server.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

namespace isthmus::mpiexec {
namespace {

constexpr std::size_t longest_request = 1 << 16;

/// The value of `name` in a line of the protocol; to the line's end for `value`, which may hold blanks.
std::string_view field(std::string_view line, std::string_view name) {
  for (std::size_t at = 0; (at = line.find(name, at)) != std::string_view::npos; ++at) {
    const std::size_t end = at + name.size();
    if ((at > 0 && line[at - 1] != ' ') || end >= line.size() || line[end] != '=') continue;
    const std::string_view rest = line.substr(end + 1);
    return name == "value" ? rest : rest.substr(0, rest.find(' '));
  }
  return {};
}

}  // namespace

std::expected<UniqueFd, int> PmiServer::add(std::int32_t appnum) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return std::unexpected(errno);
  clients_.push_back({.socket = UniqueFd(ends[0]), .appnum = appnum});
  return UniqueFd(ends[1]);
}

bool PmiServer::left_open(std::uint32_t slot) {
  if (slot >= clients_.size()) return false;
  if (clients_[slot].socket) read(slot);  // its last words
  return clients_[slot].open;
}

bool PmiServer::has_left(std::uint32_t slot) {
  return !left_open(slot) && slot < clients_.size() && clients_[slot].has_left;
}

void PmiServer::prepare(std::vector<pollfd>& waited_for) const {
  for (const Client& client : clients_)
    if (client.socket)
      waited_for.push_back({.fd = client.socket.get(),
                            .events = static_cast<short>(client.unsent.empty() ? POLLIN : POLLIN | POLLOUT),
                            .revents = 0});
}

void PmiServer::react() {
  for (std::uint32_t slot = 0; slot < clients_.size(); ++slot) {
    if (clients_[slot].socket) read(slot);
    if (clients_[slot].socket) write(clients_[slot]);
  }
}

void PmiServer::read(std::uint32_t slot) {
  Client& client = clients_[slot];
  std::array<char, 4096> buffer;
  const ssize_t count = ::recv(client.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0 || client.received.size() > longest_request) {
    client.socket.reset();
    if (job_.outlive) leave_barrier_if_all_here();
    return;
  }
  client.received.append(buffer.data(), static_cast<std::size_t>(count));
  std::size_t begin = 0;
  for (std::size_t end; (end = client.received.find('\n', begin)) != std::string::npos; begin = end + 1)
    answer(slot, std::string_view(client.received).substr(begin, end - begin));
  client.received.erase(0, begin);
}

void PmiServer::write(Client& client) {
  const ssize_t count = client.unsent.empty() ? 0
                                              : ::send(client.socket.get(), client.unsent.data(),
                                                       client.unsent.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count > 0) client.unsent.erase(0, static_cast<std::size_t>(count));
}

void PmiServer::reply(Client& client, const std::string& line) {
  client.unsent += line;
  client.unsent += '\n';
  write(client);
}

void PmiServer::answer(std::uint32_t slot, std::string_view line) {
  Client& client = clients_[slot];
  const std::string_view command = field(line, "cmd");
  if (command == "init") {
    client.open = true;
    reply(client, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
  } else if (command == "get_maxes") {
    reply(client, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024");
  } else if (command == "get_appnum") {
    reply(client, fmt::format("cmd=appnum appnum={}", client.appnum));
  } else if (command == "get_universe_size") {
    reply(client, fmt::format("cmd=universe_size size={}", job_.universe));
  } else if (command == "get_my_kvsname") {
    reply(client, fmt::format("cmd=my_kvsname kvsname={}", job_.name));
  } else if (command == "put") {
    put_.insert_or_assign(std::string(field(line, "key")), std::string(field(line, "value")));
    reply(client, "cmd=put_result rc=0 msg=success");
  } else if (command == "get") {
    const std::string key(field(line, "key"));
    const auto found = common_.find(key);
    if (key == "PMI_process_mapping")
      reply(client, "cmd=get_result rc=0 msg=success value=" + job_.mapping);
    else if (found != common_.end())
      reply(client, "cmd=get_result rc=0 msg=success value=" + found->second);
    else
      reply(client, "cmd=get_result rc=-1 msg=key_not_found value=unknown");
  } else if (command == "barrier_in") {
    enter_barrier(client);
  } else if (command == "finalize") {
    client.open = false;
    client.has_left = true;
    reply(client, "cmd=finalize_ack");
  } else if (command == "abort") {
    int code = 1;
    const std::string_view text = field(line, "exitcode");
    std::from_chars(text.data(), text.data() + text.size(), code);
    if (job_.abort) job_.abort(slot, code);
  } else {
    reply(client, fmt::format("cmd={}_result rc=-1 msg=not_supported", command));
  }
}

void PmiServer::enter_barrier(Client& client) {
  if (client.in_barrier) return;
  client.in_barrier = true;
  leave_barrier_if_all_here();
}

void PmiServer::leave_barrier_if_all_here() {
  const auto is_here = [this](const Client& client) {
    return client.in_barrier || (job_.outlive && !client.socket);
  };
  if (!std::ranges::all_of(clients_, is_here) || std::ranges::none_of(clients_, &Client::in_barrier)) return;
  if (std::exchange(is_reported_, true)) return;
  const Pairs put = std::exchange(put_, {});
  if (job_.barrier)
    job_.barrier(put);
  else
    release(put);
}

void PmiServer::release(const Pairs& pairs) {
  for (const auto& [key, value] : pairs)
    common_.insert_or_assign(key, value);
  is_reported_ = false;
  for (Client& client : clients_) {
    client.in_barrier = false;
    if (client.socket) reply(client, "cmd=barrier_out rc=0");
  }
}

}  // namespace isthmus::mpiexec
