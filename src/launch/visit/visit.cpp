#include "launch/visit/visit.hpp"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "base/sip_hash.hpp"

namespace isthmus::launch {
namespace {

using Clock = std::chrono::steady_clock;

/// A keyed hash over packets one after the other, whose own `proof` is 0.
template <class... Packet>
std::uint64_t proof_of(const wire::JobKey& key, const Packet&... packets) noexcept {
  std::array<std::byte, (sizeof(Packet) + ...)> all{};
  std::byte* to = all.data();
  ((std::memcpy(to, &packets, sizeof packets), to += sizeof packets), ...);
  return sip_hash(key, all);
}

template <class Packet>
Packet without_proof(Packet packet) noexcept {
  packet.proof = 0;
  return packet;
}

template <class Packet>
bool is_ours(long received, const Packet& packet) noexcept {
  return received == sizeof packet && packet.magic == wire::visit_magic &&
         packet.version == wire::visit_version;
}

bool draw(wire::VisitNonce& nonce) noexcept {
  return ::getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size());
}

/// 0 for what is no socket.
std::uint64_t inode_of(int socket) noexcept {
  struct stat status{};
  return ::fstat(socket, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

std::unexpected<Error> hung_up() {
  return fail(ErrorClass::other, "it hangs up without an answer");
}

/// The next packet of the other side, which must be a `Packet`.
template <class Packet>
Result<Packet> next(int socket, Clock::time_point deadline, int seconds, std::span<UniqueFd> fds = {}) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0)
      return fail(ErrorClass::other, "it does not answer within " + std::to_string(seconds) + " s");
    pollfd watched{socket, POLLIN, 0};
    if (::poll(&watched, 1, static_cast<int>(left.count())) <= 0) continue;
    Packet packet;
    const long received = receive_packet(socket, &packet, sizeof packet, fds);
    if (received < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (received <= 0) return hung_up();
    if (!is_ours(received, packet)) return fail(ErrorClass::other, "it answers something else");
    return packet;
  }
}

}  // namespace

Result<Handed> visit(const BrokerAddress& address, const Inquiry& inquiry, int seconds) {
  const auto deadline = Clock::now() + std::chrono::seconds(seconds);
  auto socket = connect_to(address, seconds);
  if (!socket) return std::unexpected(std::move(socket).error());
  auto greeting = next<wire::VisitGreeting>(socket->get(), deadline, seconds);
  if (!greeting) return std::unexpected(std::move(greeting).error());

  std::array<int, 2> ends{-1, -1};
  wire::VisitRequest request{.socket = inquiry.socket, .rank = inquiry.rank};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0 || !draw(request.nonce))
    return fail(ErrorClass::other, "it cannot be asked: " + std::generic_category().message(errno));
  const UniqueFd answers(ends[0]);
  UniqueFd reply(ends[1]);
  request.reply = inode_of(reply.get());
  request.proof = proof_of(inquiry.key, *greeting, request);
  if (!send_packet(socket->get(), &request, sizeof request, reply.get())) return hung_up();
  reply.reset();

  std::array<UniqueFd, 2> handed;
  auto answer = next<wire::VisitAnswer>(answers.get(), deadline, seconds, handed);
  if (!answer) return std::unexpected(std::move(answer).error());
  if (answer->proof != proof_of(inquiry.key, *greeting, request, without_proof(*answer)) || !handed[0])
    return fail(ErrorClass::other, "it answers something else");
  return Handed{.region = std::move(handed[0]), .box = std::move(handed[1])};
}

std::optional<Reception> Reception::greet(int socket) {
  Reception reception;
  if (!draw(reception.greeting_.nonce) ||
      !send_packet(socket, &reception.greeting_, sizeof reception.greeting_))
    return std::nullopt;
  return reception;
}

bool Reception::hear(int socket, std::uint64_t own_socket) {
  wire::VisitRequest request;
  UniqueFd reply;
  const long received = receive_packet(socket, &request, sizeof request, &reply);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (!is_ours(received, request) || reply_ || request.wish != wire::VisitWish::region ||
      request.socket != own_socket || request.reply == 0 || inode_of(reply.get()) != request.reply)
    return false;
  request_ = request;
  reply_ = std::move(reply);
  return true;
}

bool Reception::is_proved(const wire::JobKey& key) const noexcept {
  return reply_ && request_.proof == proof_of(key, greeting_, without_proof(request_));
}

void Reception::answer(const wire::JobKey& key, std::uint32_t rank, int region, int box) const noexcept {
  wire::VisitAnswer answer{.rank = rank};
  answer.proof = proof_of(key, greeting_, request_, answer);
  const std::array fds{region, box};
  send_packet(reply_.get(), &answer, sizeof answer, std::span(fds).first(box >= 0 ? 2 : 1));
}

}  // namespace isthmus::launch
