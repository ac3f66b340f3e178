#include "launch/launcher/socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace isthmus::launch {
namespace {

std::unexpected<Error> lost(int error) {
  const std::string reason =
      error == 0 || error == EPIPE || error == ECONNRESET
          ? "the launcher has closed the connection (PMI_FD)"
          : "the connection to the launcher (PMI_FD) is broken: " + std::string(std::strerror(error));
  return fail(ErrorClass::other, reason);
}

/// Whether something has come.
Result<> wait_for(int fd, LauncherSocket::Milliseconds within) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  for (;;) {
    const int ready = ::poll(&entry, 1, static_cast<int>(within.count()));
    if (ready > 0) return {};
    if (ready == 0)
      return fail(ErrorClass::other, "the launcher (PMI_FD) has not answered for " +
                                         std::to_string(within.count() / 1000) + " s");
    if (errno != EINTR) return lost(errno);
  }
}

}  // namespace

Result<> LauncherSocket::send(std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent >= 0)
      text.remove_prefix(static_cast<std::size_t>(sent));
    else if (errno == EAGAIN) {
      pollfd entry{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
      ::poll(&entry, 1, -1);
    } else if (errno != EINTR)
      return lost(errno);
  }
  return {};
}

Result<> LauncherSocket::read_more(Milliseconds within) {
  std::array<char, 4096> piece;
  for (;;) {
    ISTHMUS_TRY(wait_for(fd_.get(), within));
    const ssize_t got = ::recv(fd_.get(), piece.data(), piece.size(), 0);
    if (got > 0) {
      received_.append(piece.data(), static_cast<std::size_t>(got));
      return {};
    }
    if (got == 0) return lost(0);
    if (errno != EINTR && errno != EAGAIN) return lost(errno);
  }
}

Result<std::string> LauncherSocket::read_line(Milliseconds within) {
  std::size_t searched = 0;
  for (;;) {
    const std::size_t end = received_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    searched = received_.size();
    if (searched > longest_message)
      return fail(ErrorClass::other, "what the launcher says on PMI_FD is not PMI: its line does not end");
    ISTHMUS_TRY(read_more(within));
  }
}

Result<std::string> LauncherSocket::read(std::size_t bytes, Milliseconds within) {
  if (bytes > longest_message)
    return fail(ErrorClass::other, "what the launcher says on PMI_FD is not PMI: a message of " +
                                       std::to_string(bytes) + " bytes");
  while (received_.size() < bytes)
    ISTHMUS_TRY(read_more(within));
  std::string text = received_.substr(0, bytes);
  received_.erase(0, bytes);
  return text;
}

void LauncherSocket::wait_for_close(Milliseconds within) noexcept {
  const auto end = std::chrono::steady_clock::now() + within;
  std::array<char, 256> ignored;
  for (;;) {
    const auto left = std::chrono::duration_cast<Milliseconds>(end - std::chrono::steady_clock::now());
    pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) == 0) return;
    const ssize_t got = ::recv(fd_.get(), ignored.data(), ignored.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return;
  }
}

void end_job(LauncherSocket& socket, std::string_view request, int code) noexcept {
  if (socket.send(request)) socket.wait_for_close(LauncherSocket::Milliseconds{5000});
  ::_exit(code);
}

}  // namespace isthmus::launch
