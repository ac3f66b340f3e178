#include "frames.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/sip_hash.hpp"

namespace isthmus::mpiexec {
namespace {

constexpr auto beat_every = std::chrono::seconds(1);
constexpr std::size_t read_at_once = std::size_t{1} << 16;
constexpr std::size_t seal_bytes = sizeof(std::uint64_t);

template <class Value>
void append(std::string& to, const Value& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

Link::Link(UniqueFd socket, std::size_t longest, const wire::JobKey& key, Side own)
    : socket_(std::move(socket)),
      longest_(longest),
      key_(key),
      own_{.side = own},
      other_{.side = own == Side::head ? Side::agent : Side::head} {
  ::fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
  const int yes = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

std::uint64_t Link::seal(Seals& seals, std::string_view said) const {
  std::string sealed(1, static_cast<char>(seals.side));
  append(sealed, seals.count++);
  sealed += said;
  return sip_hash(key_, std::as_bytes(std::span(sealed)));
}

void Link::send(FrameKind kind, std::string_view body) {
  std::string said(1, static_cast<char>(kind));
  said += body;
  append(unsent_, static_cast<std::uint32_t>(said.size() + seal_bytes));
  unsent_ += said;
  append(unsent_, seal(own_, said));
  write();
}

void Link::pump() {
  if (closed_) return;
  read();
  if (Clock::now() >= next_beat_) {
    send(FrameKind::beat);
    next_beat_ = Clock::now() + beat_every;
  }
  write();
}

void Link::listen() {
  if (!closed_) read();
}

void Link::part() {
  parted_ = true;
  ::shutdown(socket_.get(), SHUT_WR);
}

void Link::read() {
  std::array<char, read_at_once> buffer;
  while (!closed_ && received_.size() <= longest_) {
    const ssize_t count = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      closed_ = true;
      return;
    }
    received_.append(buffer.data(), static_cast<std::size_t>(count));
    heard_ = Clock::now();
  }
}

void Link::write() {
  if (parted_) unsent_.clear();
  std::size_t done = 0;
  while (done < unsent_.size() && !closed_) {
    const ssize_t count = ::send(socket_.get(), unsent_.data() + done, unsent_.size() - done, MSG_NOSIGNAL);
    if (count > 0)
      done += static_cast<std::size_t>(count);
    else if (errno == EAGAIN)
      break;
    else if (errno != EINTR)
      closed_ = true;
  }
  unsent_.erase(0, done);
}

/// The other side has broken the rules.
void Link::give_up() {
  closed_ = true;
  received_.clear();
}

std::optional<Frame> Link::next() {
  while (true) {
    std::uint32_t length = 0;
    if (received_.size() < sizeof length) return std::nullopt;
    std::memcpy(&length, received_.data(), sizeof length);
    if (length <= seal_bytes || length > longest_) {
      give_up();
      return std::nullopt;
    }
    if (received_.size() < sizeof length + length) return std::nullopt;
    const std::string_view said(received_.data() + sizeof length, length - seal_bytes);
    std::uint64_t shown = 0;
    std::memcpy(&shown, said.data() + said.size(), sizeof shown);
    if (shown != seal(other_, said)) {
      give_up();
      return std::nullopt;
    }
    Frame frame{static_cast<FrameKind>(said.front()), std::string(said.substr(1))};
    received_.erase(0, sizeof length + length);
    if (frame.kind != FrameKind::beat) return frame;
  }
}

void Link::prepare(std::vector<pollfd>& waited_for) const {
  if (closed_) return;
  const auto events = static_cast<short>(unsent_.empty() ? POLLIN : POLLIN | POLLOUT);
  waited_for.push_back({.fd = socket_.get(), .events = events, .revents = 0});
}

}  // namespace isthmus::mpiexec
