// What mpiexec hears from other hosts: bytes of somebody without the job's key make no frame, and what a
// broken agent packs into one is refused or taken whole.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "input.hpp"
#include "node/order.hpp"
#include "talk/frames.hpp"

namespace isthmus::mpiexec {
namespace {

constexpr wire::JobKey key{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
constexpr std::size_t longest = 1 << 16;

/// What is taken says the same when it is packed again.
template <class Unpack>
void repack(std::string_view body, Unpack unpack) {
  const auto value = unpack(body);
  if (!value) return;
  const std::string packed = pack(*value);
  const auto again = unpack(packed);
  if (!again || pack(*again) != packed) std::abort();
}

void bodies(std::string_view body) {
  repack(body, unpack_hello);
  repack(body, unpack_order);
  repack(body, unpack_failure);
  repack(body, unpack_pairs);
}

std::string bytes_of(fuzz::Input& input) {
  std::string bytes(input.take<std::uint16_t>() % 1500, '\0');
  input.fill(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

/// A stranger on the line of `link`; `opening` makes an agent's first words, which may even have been
/// recorded.
void stranger(fuzz::Input& input, bool at_head) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  const UniqueFd line(ends[1]);
  Link link = at_head ? Link(UniqueFd(ends[0]), longest, key) : Link(UniqueFd(ends[0]), longest, key, 1);
  link.send(FrameKind::signal, "9");
  std::string said;
  if (at_head && input.below(2) != 0) {
    const Opening opening = Opening::make(key, input.below(4));
    said.assign(reinterpret_cast<const char*>(&opening), sizeof opening);
  }
  if (!said.empty() && input.below(4) == 0) said[input.below(sizeof(Opening))] ^= 1;
  while (!input.empty() && !link.closed()) {
    said += bytes_of(input);
    if (::send(line.get(), said.data(), said.size(), MSG_NOSIGNAL) < 0) break;
    said.clear();
    if (input.below(2) != 0)
      link.pump();
    else
      link.listen();
    if (link.next()) std::abort();  // nothing is sealed
    if (input.below(16) == 0) ::shutdown(line.get(), SHUT_WR);
  }
}

}  // namespace
}  // namespace isthmus::mpiexec

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  isthmus::fuzz::Input input(data, size);
  const unsigned what = input.below(3);
  if (what == 0)
    isthmus::mpiexec::bodies({reinterpret_cast<const char*>(data) + 1, size - (size > 0 ? 1 : 0)});
  else
    isthmus::mpiexec::stranger(input, what == 1);
  return 0;
}
