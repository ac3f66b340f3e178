#include "launch/visit/descriptor_box.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <system_error>

#include "launch/visit/broker_socket.hpp"

namespace isthmus::launch {
namespace {

/// More than a box has room for.
constexpr std::size_t most_packets = 512;

/// A process's turn to look into a box: a record lock (fcntl(2)) on the socket, which the kernel takes back
/// from a process that ends. Without it, two processes that look at the same moment hold each other's
/// packets, put them back, and see the same ones again: on a quiet machine, where both find out about each
/// other's memory in the same microsecond, 2 of 50 jobs of two ranks never got any.
///
/// A look takes some microseconds, so another one's is waited for: a message whose memory was to be mapped
/// would go another way, and where there is one message for each piece of memory, nothing makes up for it.
/// One that has lost its processor in its turn is not waited for.
class Turn {
 public:
  explicit Turn(int socket) noexcept : socket_(socket) {
    if (take()) return;
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (is_another_process_ && std::chrono::steady_clock::now() < deadline) {
      ::sched_yield();
      if (take()) return;
    }
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (!is_another_process_) static_cast<void>(set(F_UNLCK));
  }

  [[nodiscard]] bool is_another_process() const noexcept { return is_another_process_; }

 private:
  static constexpr std::chrono::milliseconds patience{1};

  bool take() noexcept {
    const bool is_ours = set(F_WRLCK);
    // Whatever else keeps it from being locked: looks without turns find nearly all.
    is_another_process_ = !is_ours && (errno == EAGAIN || errno == EACCES);
    return is_ours;
  }
  [[nodiscard]] bool set(short type) const noexcept {
    struct flock all{};
    all.l_type = type;
    all.l_whence = SEEK_SET;
    return ::fcntl(socket_, F_SETLK, &all) == 0;
  }

  int socket_;
  bool is_another_process_ = false;
};

}  // namespace

Result<UniqueFd> DescriptorBox::make() {
  const auto cannot = [](const char* step) {
    return fail(ErrorClass::other, std::string(step) + ": " + std::generic_category().message(errno));
  };
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return cannot("socket");
  // The kernel finds a name, by which the socket is connected to itself: from then on nobody else may send to
  // it (unix(7)).
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address.sun_family) != 0)
    return cannot("bind");
  socklen_t size = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return cannot("connect");
  return socket;
}

bool DescriptorBox::is_one(int fd) noexcept {
  int domain = 0;
  int type = 0;
  socklen_t size = sizeof domain;
  if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX) return false;
  size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM;
}

std::expected<void, std::errc> DescriptorBox::leave(std::uint32_t rank, const wire::DescriptorTicket& ticket,
                                                    int fd) noexcept {
  const wire::LeftDescriptor packet{.ticket = ticket, .rank = rank};
  if (send_packet(socket_.get(), &packet, sizeof packet, fd)) return {};
  return std::unexpected(static_cast<std::errc>(errno));
}

DescriptorBox::Seen DescriptorBox::look(const wire::DescriptorTicket& ticket, UniqueFd& wanted,
                                        wire::LeftDescriptor& packet) {
  // Before it is taken, so that none is lost for want of memory.
  if (kept_.empty() || kept_.back().fd) kept_.emplace_back();
  if (owed_.empty() || owed_.back().fd) owed_.emplace_back();
  Kept& place = kept_.back();
  give_back();
  UniqueFd fd;
  const long received = receive_packet(socket_.get(), &packet, sizeof packet, &fd);
  if (received < 0) return Seen::nothing;
  if (received != sizeof packet || packet.magic != wire::descriptor_magic || !fd) return Seen::other;
  if (packet.rank != rank_) {
    // This very packet has made room for it. If another was quicker, it is kept until there is some.
    if (!leave(packet.rank, packet.ticket, fd.get()))
      owed_.back() = {packet.rank, packet.ticket, std::move(fd)};
    return Seen::returned;
  }
  if (packet.ticket == ticket) {
    wanted = std::move(fd);
    return Seen::wanted;
  }
  place = {packet.ticket, std::move(fd)};
  if (kept_.size() > most_kept) kept_.pop_front();
  return Seen::other;
}

void DescriptorBox::give_back() noexcept {
  while (owes() && leave(owed_.front().rank, owed_.front().ticket, owed_.front().fd.get()))
    owed_.pop_front();
}

UniqueFd DescriptorBox::take_kept(const wire::DescriptorTicket& ticket) {
  const auto known = std::ranges::find(kept_, ticket, &Kept::ticket);
  if (known == kept_.end()) return {};
  UniqueFd fd = std::move(known->fd);
  kept_.erase(known);
  return fd;
}

UniqueFd DescriptorBox::take_now(const wire::DescriptorTicket& ticket) {
  UniqueFd fd = take_kept(ticket);
  if (fd) return fd;
  const Turn turn(socket_.get());
  if (turn.is_another_process()) return {};
  std::optional<wire::LeftDescriptor> first_returned;
  for (std::size_t looks = 0; !fd && looks < most_packets; ++looks) {
    wire::LeftDescriptor packet;
    const Seen seen = look(ticket, fd, packet);
    if (seen == Seen::nothing) break;
    if (seen != Seen::returned) continue;
    // Other threads of this process take what they find, so that it may never be seen again: hence the number
    // besides.
    if (first_returned && first_returned->ticket == packet.ticket && first_returned->rank == packet.rank)
      break;
    if (!first_returned) first_returned = packet;
  }
  return fd;
}

UniqueFd DescriptorBox::take(const wire::DescriptorTicket& ticket) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  UniqueFd fd = take_now(ticket);
  while (!fd && std::chrono::steady_clock::now() < deadline) {
    ::sched_yield();
    fd = take_now(ticket);
  }
  return fd;
}

}  // namespace isthmus::launch
