#include "vrank/hosts/handshake.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/sip_hash.hpp"
#include "vrank/hosts/dialer.hpp"

namespace isthmus::vrank {
namespace {

constexpr std::uint64_t handshake_magic = 0x6973'7468'6361'6c01;  // "isthcal", 1
constexpr long patience_seconds = 10;

bool draw(CallNonce& nonce) {
  return ::getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size());
}

std::uint64_t proof_of(const wire::JobKey& key, const CallGreeting& greeting, CallRequest request) {
  request.proof = 0;
  std::array<std::byte, sizeof greeting + sizeof request> all;
  std::memcpy(all.data(), &greeting, sizeof greeting);
  std::memcpy(all.data() + sizeof greeting, &request, sizeof request);
  return sip_hash(key, all);
}

/// The other direction's: of what has been proved, too.
std::uint64_t answer_to(const wire::JobKey& key, const CallRequest& request) {
  return sip_hash(key, std::as_bytes(std::span(&request, 1)));
}

/// How long one waits for the other side.
void set_patience(int socket, long seconds) {
  const timeval limit{.tv_sec = seconds, .tv_usec = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

Result<> introduce(int socket, const wire::JobKey& key, const CallSubject& subject) {
  CallGreeting greeting;
  CallRequest request{.magic = handshake_magic, .subject = subject, .nonce = {}, .proof = 0};
  CallAnswer answer;
  set_patience(socket, patience_seconds);
  if (!draw(request.nonce)) return fail(ErrorClass::other, "no random numbers from the kernel");
  if (!read_whole(socket, &greeting, sizeof greeting) || greeting.magic != handshake_magic)
    return fail(ErrorClass::other, "what listens there is no process of the job");
  request.proof = proof_of(key, greeting, request);
  if (!write_whole(socket, &request, sizeof request) || !read_whole(socket, &answer, sizeof answer) ||
      answer.magic != handshake_magic || answer.proof != answer_to(key, request))
    return fail(ErrorClass::other, "what listens there is another process");
  set_patience(socket, 0);
  return {};
}

}  // namespace

bool read_whole(int socket, void* to, std::size_t bytes) noexcept {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = ::recv(socket, static_cast<std::byte*>(to) + done, bytes - done, 0);
    if (got > 0)
      done += static_cast<std::size_t>(got);
    else if (got == 0 || errno != EINTR)
      return false;
  }
  return true;
}

bool write_whole(int socket, const void* from, std::size_t bytes) noexcept {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t put =
        ::send(socket, static_cast<const std::byte*>(from) + done, bytes - done, MSG_NOSIGNAL);
    if (put > 0)
      done += static_cast<std::size_t>(put);
    else if (errno != EINTR)
      return false;
  }
  return true;
}

Result<OwnFd> call_process(const ProcessAddress& address, const CallSubject& subject, OwnDescriptors& own) {
  Dialer dialer(address, own);
  while (OwnFd socket = dialer.next()) {
    const auto introduced = introduce(socket.get(), address.key, subject);
    if (introduced) return socket;
    dialer.note(introduced.error().text());
  }
  return fail(ErrorClass::other, dialer.reasons());
}

std::optional<Reception> Reception::greet(OwnFd socket) {
  Reception made(std::move(socket));
  made.greeting_.magic = handshake_magic;
  // As it is empty, it takes these.
  if (!draw(made.greeting_.nonce) || !write_whole(made.socket(), &made.greeting_, sizeof made.greeting_))
    return std::nullopt;
  const int yes = 1;
  ::setsockopt(made.socket(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return made;
}

Reception::Heard Reception::hear(const wire::JobKey& key) {
  const ssize_t got = ::recv(socket(), reinterpret_cast<std::byte*>(&request_) + received_,
                             sizeof request_ - received_, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Heard::nothing_yet;
  if (got <= 0) return Heard::stranger;
  received_ += static_cast<std::size_t>(got);
  if (received_ < sizeof request_) return Heard::nothing_yet;
  return request_.magic == handshake_magic && request_.proof == proof_of(key, greeting_, request_)
             ? Heard::proved
             : Heard::stranger;
}

OwnFd Reception::accept(const wire::JobKey& key) {
  const CallAnswer answer{.magic = handshake_magic, .proof = answer_to(key, request_)};
  if (!write_whole(socket(), &answer, sizeof answer)) return {};
  return std::move(socket_);
}

}  // namespace isthmus::vrank
