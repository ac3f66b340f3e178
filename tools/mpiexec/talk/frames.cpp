#include "talk/frames.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace isthmus::mpiexec {
namespace {

constexpr auto beat_every = std::chrono::seconds(1);
constexpr std::size_t frame_read_at_once = std::size_t{1} << 16;

template <class Value>
std::string_view bytes_of(const Value& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

Link::Link(UniqueFd socket, std::size_t longest, const wire::JobKey& key)
    : socket_(std::move(socket)), longest_(longest), key_(key), own_(Side::head) {
  set_up();
}

Link::Link(UniqueFd socket, std::size_t longest, const wire::JobKey& key, std::uint32_t host)
    : socket_(std::move(socket)),
      longest_(longest),
      key_(key),
      own_(Side::agent),
      opening_(Opening::make(key, host)),
      unsent_(bytes_of(opening_)) {
  set_up();
}

void Link::set_up() {
  ::fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
  const int yes = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  write();
}

std::optional<std::string> Link::take(std::size_t bytes) {
  if (received_.size() < bytes) return std::nullopt;
  std::string taken = received_.substr(0, bytes);
  received_.erase(0, bytes);
  return taken;
}

bool Link::hear_opening() {
  const auto said = take(sizeof(Opening));
  if (!said) return false;
  std::memcpy(&opening_, said->data(), sizeof opening_);
  if (!opening_.is_proved(key_)) {
    give_up();
    return false;
  }
  Answer answer;
  ::randombytes_buf(answer.nonce.data(), answer.nonce.size());
  secrecy_.emplace(key_, own_, opening_, answer);
  unsent_ += bytes_of(answer);
  unsent_ += secrecy_->header();
  write();
  return true;
}

bool Link::hear_answer() {
  const auto said = take(sizeof(Answer));
  if (!said) return false;
  Answer answer;
  std::memcpy(&answer, said->data(), sizeof answer);
  secrecy_.emplace(key_, own_, opening_, answer);
  unsent_ += secrecy_->header();
  for (const std::string& frame : std::exchange(too_early_, {}))
    put(frame);
  write();
  return true;
}

bool Link::greet() {
  if (!secrecy_ && !(own_ == Side::head ? hear_opening() : hear_answer())) return false;
  if (heard_header_) return true;
  const auto header = take(Secrecy::header_bytes);
  if (header) secrecy_->hear_header(*header);
  heard_header_ = header.has_value();
  return heard_header_;
}

void Link::put(std::string_view said) {
  const std::string sealed = secrecy_->seal(said);
  unsent_ += bytes_of(static_cast<std::uint32_t>(sealed.size()));
  unsent_ += sealed;
}

void Link::send(FrameKind kind, std::string_view body) {
  std::string said(1, static_cast<char>(kind));
  said += body;
  if (secrecy_)
    put(said);
  else
    too_early_.push_back(std::move(said));
  write();
}

void Link::pump() {
  if (closed_) return;
  read();
  if (secrecy_ && Clock::now() >= next_beat_) {
    send(FrameKind::beat);
    next_beat_ = Clock::now() + beat_every;
  }
  write();
}

void Link::listen() {
  if (closed_) return;
  read();
  write();
}

void Link::part() {
  parted_ = true;
  ::shutdown(socket_.get(), SHUT_WR);
}

void Link::read() {
  std::array<char, frame_read_at_once> buffer;
  while (!closed_ && received_.size() < longest_ + sizeof(std::uint32_t)) {
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
  while (greet()) {
    std::uint32_t length = 0;
    if (received_.size() < sizeof length) return std::nullopt;
    std::memcpy(&length, received_.data(), sizeof length);
    if (length <= Secrecy::seal_bytes || length > longest_) {
      give_up();
      return std::nullopt;
    }
    if (received_.size() < sizeof length + length) return std::nullopt;
    const auto said = secrecy_->open(std::string_view(received_).substr(sizeof length, length));
    if (!said || said->empty()) {
      give_up();
      return std::nullopt;
    }
    received_.erase(0, sizeof length + length);
    Frame frame{static_cast<FrameKind>(said->front()), said->substr(1)};
    if (frame.kind != FrameKind::beat) return frame;
  }
  return std::nullopt;
}

void Link::prepare(std::vector<pollfd>& waited_for) const {
  if (closed_) return;
  const auto events = static_cast<short>(unsent_.empty() ? POLLIN : POLLIN | POLLOUT);
  waited_for.push_back({.fd = socket_.get(), .events = events, .revents = 0});
}

}  // namespace isthmus::mpiexec
