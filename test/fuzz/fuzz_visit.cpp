// Visits to a broker, from both sides: a visitor that says anything gets nothing, and a broker that answers
// anything is not believed.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <thread>

#include "input.hpp"
#include "launch/visit/visit.hpp"

namespace isthmus {
namespace {

using namespace launch;

constexpr wire::JobKey key{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
constexpr std::uint64_t own_socket = 42;
constexpr std::size_t longest_packet = 160;

std::array<UniqueFd, 2> packet_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::uint64_t inode(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 ? status.st_ino : 0;
}

/// Overwrites some of a packet, or makes it shorter or longer.
template <class Packet>
std::size_t spoil(fuzz::Input& input, const Packet& packet, std::array<std::byte, longest_packet>& bytes) {
  std::memcpy(bytes.data(), &packet, sizeof packet);
  for (unsigned times = input.below(4); times > 0; --times)
    bytes[input.below(sizeof packet)] = input.take<std::byte>();
  return input.below(8) == 0 ? input.below(longest_packet) : sizeof packet;
}

/// A visitor without the key.
void visitor(fuzz::Input& input) {
  auto [broker, stranger] = packet_pair();
  auto reception = Reception::greet(broker.get());
  if (!reception) std::abort();
  const UniqueFd file(::memfd_create("fuzz", MFD_CLOEXEC));
  for (unsigned times = input.below(3) + 1; times > 0; --times) {
    auto [answers, reply] = packet_pair();
    const int sent = input.pick<int>({reply.get(), file.get(), -1});
    wire::VisitRequest request{.socket = own_socket, .rank = input.take<std::uint32_t>()};
    request.reply = inode(sent);
    request.proof = input.take<std::uint64_t>();
    std::array<std::byte, longest_packet> bytes{};
    const std::size_t size = spoil(input, request, bytes);
    if (size > 0) send_packet(stranger.get(), bytes.data(), size, sent);
    const bool goes_on = reception->hear(broker.get(), own_socket);
    if (reception->is_proved(key)) std::abort();
    if (!goes_on) return;
  }
}

/// What the broker says to a visitor: a greeting, and an answer without proof.
struct Said {
  std::array<std::byte, longest_packet> greeting{}, answer{};
  std::size_t greeting_bytes = 0, answer_bytes = 0;
  unsigned files = 0;
};

void say(const UniqueFd& listener, const Said& said) {
  UniqueFd socket;
  while (!socket)
    socket = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (said.greeting_bytes == 0) return;
  send_packet(socket.get(), said.greeting.data(), said.greeting_bytes);
  wire::VisitRequest request;
  UniqueFd reply;
  timeval patience{.tv_sec = 5, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char first = 0;
  if (::recv(socket.get(), &first, 1, MSG_PEEK) <= 0) return;
  if (receive_packet(socket.get(), &request, sizeof request, &reply) <= 0 || !reply) return;
  const UniqueFd file(::memfd_create("fuzz", MFD_CLOEXEC));
  const std::array files{file.get(), file.get()};
  if (said.answer_bytes > 0)
    send_packet(reply.get(), said.answer.data(), said.answer_bytes, std::span(files).first(said.files));
}

void broker(fuzz::Input& input) {
  static const auto address = BrokerAddress::abstract((std::uint64_t{1} << 40) + std::uint64_t(::getpid()));
  static const auto listener = listen_at(address);
  if (!listener) std::abort();
  Said said;
  said.greeting_bytes = spoil(input, wire::VisitGreeting{}, said.greeting);
  said.answer_bytes =
      spoil(input, wire::VisitAnswer{.rank = 1, .proof = input.take<std::uint64_t>()}, said.answer);
  said.files = input.below(3);
  std::thread other([&] { say(*listener, said); });
  if (visit(address, {.socket = own_socket, .rank = 0, .key = key}, 5)) std::abort();
  other.join();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  if (input.below(4) == 0)
    broker(input);
  else
    visitor(input);
  return 0;
}

}  // namespace isthmus
