#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <expected>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/system/unix_address.hpp"
#include "base/unique_fd.hpp"
#include "base/whole_number.hpp"
#include "commands.hpp"
#include "stuck/door_name.hpp"

namespace isthmus::tool {
namespace {

constexpr auto patience = std::chrono::seconds(10);
constexpr int status_usage = 2;

/// Pids that have a door of mpiexec's name in this network namespace, ascending. Anybody can take such a
/// name.
std::vector<pid_t> find_doors() {
  std::ifstream file("/proc/net/unix");
  std::vector<pid_t> result;
  const std::string prefix = "@" + std::string(mpiexec::stuck::door_name);
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(prefix);
    if (at == std::string::npos) continue;
    if (const auto pid = whole_number<std::int32_t>(line.substr(at + prefix.size()))) result.push_back(*pid);
  }
  std::ranges::sort(result);
  const auto again = std::ranges::unique(result);
  result.erase(again.begin(), again.end());
  return result;
}

std::optional<uid_t> owner_of(pid_t pid) {
  struct stat status{};
  if (::stat(fmt::format("/proc/{}", pid).c_str(), &status) != 0) return std::nullopt;
  return status.st_uid;
}

std::string command_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
  std::string text;
  for (char byte = 0; file.get(byte) && text.size() < 100;)
    text += byte == '\0' ? ' ' : byte < ' ' || byte > '~' ? '?' : byte;
  while (text.ends_with(' '))
    text.pop_back();
  return text;
}

/// What mpiexec with that pid says; or why not, in words.
std::expected<std::string, std::string> ask(pid_t pid) {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UnixAddress address = mpiexec::stuck::door_of(pid);
  if (!socket || ::connect(socket.get(), address.get(), address.size()) != 0) {
    const std::string command = command_of(pid);
    return std::unexpected(fmt::format("process {} is no mpiexec of Isthmus that runs a job{}", pid,
                                       command.empty() ? "" : fmt::format(" (it is: {})", command)));
  }
  const Credentials peer = credentials_of(socket.get());
  if (peer.pid != pid) return std::unexpected(fmt::format("another process answers for {}", pid));
  if (::geteuid() != 0 && peer.uid != ::geteuid())
    return std::unexpected(
        fmt::format("mpiexec with pid {} belongs to another user (uid {})", pid, peer.uid));
  std::string text;
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd waited_for{.fd = socket.get(), .events = POLLIN, .revents = 0};
    if (left <= 0 || ::poll(&waited_for, 1, static_cast<int>(left)) == 0)
      return std::unexpected(
          fmt::format("mpiexec with pid {} has not answered in {} s: is it stopped?", pid, patience.count()));
    char piece[4096];
    const ssize_t got = ::read(socket.get(), piece, sizeof piece);
    if (got > 0) text.append(piece, static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR)) break;
  }
  if (text.empty()) return std::unexpected(fmt::format("the job of mpiexec with pid {} has just ended", pid));
  return text;
}

int complain(const std::string& text) {
  fmt::print(stderr, "isthmus: {}\n", text);
  return 1;
}

}  // namespace

int stuck(const std::string& word) {
  std::optional<std::int32_t> pid;
  if (!word.empty()) {
    pid = whole_number<std::int32_t>(word);
    if (!pid || *pid <= 0) {
      fmt::print(stderr, "isthmus: '{}' is no process id\n", word);
      return status_usage;
    }
    const auto owner = owner_of(*pid);
    if (!owner) return complain(fmt::format("there is no process {}", *pid));
  } else {
    std::vector<pid_t> own;
    for (const pid_t each : find_doors())
      if (owner_of(each) == ::geteuid()) own.push_back(each);
    if (own.empty()) return complain("no mpiexec of yours runs here");
    if (own.size() > 1) {
      fmt::print(stderr, "isthmus: several jobs of yours run here; which? isthmus stuck PID\n");
      for (const pid_t each : own)
        fmt::print(stderr, "  {}  {}\n", each, command_of(each));
      return status_usage;
    }
    pid = own.front();
  }
  const auto text = ask(*pid);
  if (!text) return complain(text.error());
  return std::fputs(text->c_str(), stdout) >= 0 && std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace isthmus::tool
