// What strangers say on a watch's port, and where a peer's address leads: nobody is lost but who has proved
// itself.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "channel/network/watch.hpp"
#include "input.hpp"

namespace isthmus {
namespace {

using network::Watch;
using wire::WatchHello;

constexpr std::uint64_t own_token = 0x1111;
constexpr std::uint64_t token_of_peer = 0x2222;
constexpr std::uint32_t ranks = 4;
constexpr network::PeerId peer = 2;

/// Ends a connection at once, and leaves nothing of it in the kernel.
void drop(UniqueFd& socket) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  socket.reset();
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  name.sin_port = htons(port);
  return name;
}

/// Listens where the address of `peer` leads.
class Impostor {
 public:
  Impostor() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_in name = loopback(0);
    socklen_t bytes = sizeof name;
    auto* const address = reinterpret_cast<sockaddr*>(&name);
    if (::bind(listener_.get(), address, bytes) != 0 || ::listen(listener_.get(), 8) != 0 ||
        ::getsockname(listener_.get(), address, &bytes) != 0)
      std::abort();
    port_ = ntohs(name.sin_port);
  }
  [[nodiscard]] wire::PortAddress address() const {
    return {.token = token_of_peer, .watch_port = port_, .hosts = {htonl(INADDR_LOOPBACK)}, .transport = {}};
  }
  UniqueFd accept() {
    return UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  }

 private:
  UniqueFd listener_;
  std::uint16_t port_ = 0;
};

/// A hello, with or without some of what makes it true, or any bytes. Marks in `proved` whom it proves.
std::vector<std::byte> words(fuzz::Input& input, WatchHello hello, std::uint64_t token, WatchHello::Way way,
                             std::uint32_t& proved) {
  const WatchHello::Way expected = way;
  const unsigned what = input.below(256);
  if ((what & 1U) != 0) hello.sender = input.take<std::uint32_t>() % (ranks + 2);
  if ((what & 2U) != 0) hello.nonce ^= input.take<std::uint64_t>();
  if ((what & 4U) != 0) hello.version = input.take<std::uint32_t>();
  if ((what & 8U) != 0) way = way == WatchHello::Way::ask ? WatchHello::Way::answer : WatchHello::Way::ask;
  hello.proof = (what & 16U) != 0 ? input.take<std::uint64_t>() : hello.proof_of(token, way);
  std::vector<std::byte> bytes((what & 32U) != 0 ? input.below(80) : sizeof hello);
  if ((what & 64U) != 0)
    input.fill(bytes);
  else if (!bytes.empty())
    std::memcpy(bytes.data(), &hello, std::min(bytes.size(), sizeof hello));
  WatchHello said;
  // What follows a hello in the same breath does not undo it.
  if (bytes.size() < sizeof said) return bytes;
  std::memcpy(&said, bytes.data(), sizeof said);
  if (said.sender < ranks && said.is_proved(token, expected)) proved |= 1U << said.sender;
  return bytes;
}

/// A kernel may tell of an end later: who has proved itself once may be lost at any time after.
void look(Watch& watch, std::uint32_t proved) {
  static std::uint32_t may_be_lost = 0;
  may_be_lost |= proved;
  for (const Watch::Loss& loss : watch.look())
    if (loss.peer >= ranks || (may_be_lost >> loss.peer & 1U) == 0) std::abort();
}

/// Who connects to the watch.
void stranger(Watch& watch, std::uint16_t port, fuzz::Input& input) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in name = loopback(port);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    // EINTR: by libFuzzer's own timer.
    if (errno != EADDRNOTAVAIL && errno != EINTR) {
      std::perror("connect");
      std::abort();
    }
    return;  // the kernel has not let go of the ports of some 100,000 connections yet
  }
  std::uint32_t proved = 0;
  for (unsigned times = input.below(3) + 1; times > 0; --times) {
    const WatchHello hello{.sender = 1, .nonce = 7};
    const auto bytes = words(input, hello, own_token, WatchHello::Way::ask, proved);
    ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    look(watch, proved);
  }
  drop(socket);
  look(watch, proved);
  look(watch, proved);
}

/// Who answers in the place of `peer`.
void impostor(Watch& watch, Impostor& other, fuzz::Input& input) {
  watch.begin(peer, other.address());
  UniqueFd line = other.accept();
  if (!line) return watch.end(peer);  // as above: then nobody is watched
  look(watch, 0);
  WatchHello asked;
  if (::recv(line.get(), &asked, sizeof asked, 0) != sizeof asked) std::abort();
  std::uint32_t proved = 0;
  const WatchHello hello{.sender = peer, .nonce = asked.nonce};
  const auto bytes = words(input, hello, token_of_peer, WatchHello::Way::answer, proved);
  ::send(line.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  look(watch, proved);
  drop(line);
  look(watch, proved);
  watch.end(peer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto watch = Watch::open({.rank = 0, .ranks = ranks}, own_token);
  static Impostor other;
  if (!watch) std::abort();
  wire::PortAddress own;
  watch->describe(own);
  fuzz::Input input(data, size);
  for (int turns = 0; turns < 4 && !input.empty(); ++turns)
    if (input.below(2) != 0)
      stranger(*watch, own.watch_port, input);
    else
      impostor(*watch, other, input);
  return 0;
}

}  // namespace isthmus
