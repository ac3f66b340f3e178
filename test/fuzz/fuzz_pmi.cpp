// What a launcher says on PMI_FD, in PMI-1 and PMI-2: whatever it is, calls end with a value or an error.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "input.hpp"
#include "launch/launcher/pmi1.hpp"
#include "launch/launcher/pmi2.hpp"
#include "wire/port.hpp"

namespace isthmus {
namespace {

constexpr std::size_t longest_text = 200;

/// A launcher's answers, in the order in which a process asks.
constexpr const char* lines_of_pmi1[]{
    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
    "cmd=my_kvsname kvsname=kvs_1_0",
    "cmd=universe_size size=4",
    "cmd=appnum appnum=0",
    "cmd=put_result rc=0 msg=success",
    "cmd=barrier_out",
    "cmd=get_result rc=0 msg=success value=",
    "cmd=finalize_ack",
};
constexpr const char* words_of_pmi2[]{
    "cmd=fullinit-response;rc=0;appnum=0;",
    "cmd=job-getid-response;rc=0;jobid=7.0;",
    "cmd=info-getjobattr-response;rc=0;value=4;",
    "cmd=kvs-put-response;rc=0;",
    "cmd=kvs-fence-response;rc=0;",
    "cmd=kvs-get-response;rc=0;found=TRUE;value=",
    "cmd=finalize-response;rc=0;",
};

std::string text(fuzz::Input& input) {
  std::string bytes(input.below(longest_text), '\0');
  input.fill(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::string framed(fuzz::Input& input, const std::string& message) {
  char length[16];
  const std::size_t told = input.below(8) == 0 ? input.take<std::uint32_t>() % 2'000'000 : message.size();
  std::snprintf(length, sizeof length, "%6zu", told);
  return length + message;
}

/// What comes next: an answer that fits, the same with something behind it, another one, or any bytes.
template <std::size_t N>
std::string next(fuzz::Input& input, const char* const (&answers)[N], std::size_t& turn) {
  const unsigned what = input.below(8);
  if (what == 0) return text(input);
  const std::size_t which = what == 1 ? input.below(N) : turn++ % N;
  return std::string(answers[which]) + (what < 5 ? text(input) : "");
}

std::string all_of_pmi1(fuzz::Input& input) {
  std::string all;
  for (std::size_t turn = 0; !input.empty() && all.size() < 100'000;)
    all += next(input, lines_of_pmi1, turn) + (input.below(16) == 0 ? "" : "\n");
  return all;
}

std::string all_of_pmi2(fuzz::Input& input) {
  std::string all = input.below(8) == 0 ? text(input) : "cmd=response_to_init pmi_version=2 rc=0\n";
  for (std::size_t turn = 0; !input.empty() && all.size() < 100'000;)
    all += framed(input, next(input, words_of_pmi2, turn));
  return all;
}

void use(launch::KeyValues& space) {
  if (!space.put("place", std::string(2000, 'x'))) return;
  if (!space.fence()) return;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    if (const auto value = space.get(rank, "place"))
      if (const auto address = wire::PortAddress::read(std::as_bytes(std::span(*value))))
        if (address->hosts.size() > wire::PortAddress::hosts_limit) std::abort();
  if (!space.finalize()) return;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const bool newer = input.below(2) != 0;
  const std::string answers = newer ? all_of_pmi2(input) : all_of_pmi1(input);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  const UniqueFd launcher(ends[0]);
  launch::PmiPlace place{.fd = UniqueFd(ends[1]), .rank = 1, .size = 3, .job = "7"};
  ::fcntl(launcher.get(), F_SETFL, O_NONBLOCK);
  if (::send(launcher.get(), answers.data(), answers.size(), MSG_NOSIGNAL) < 0 && !answers.empty())
    std::abort();
  ::shutdown(launcher.get(), SHUT_WR);
  auto space = newer ? launch::Pmi2::connect(std::move(place)) : launch::Pmi1::connect(std::move(place));
  if (space) use(**space);
  return 0;
}

}  // namespace isthmus
