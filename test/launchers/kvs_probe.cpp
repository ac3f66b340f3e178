// A process of somebody's launcher, below MPI: meets the others through launch::find_key_values.
//
//   kvs_probe [exchange]   publishes a value, checks those of all others, twice; prints what it is, and
//   finalizes kvs_probe exit CODE    finalizes, and exits with CODE from rank 0 kvs_probe abort CODE   the
//   last rank ends the job, the others wait for it kvs_probe missing      asks for a key that nobody has put;
//   prints the error and finalizes kvs_probe children     prints what a child would find: environment and
//   open sockets of the launcher
//
// Exit status 3: the launcher's variables are there, but it cannot be reached; the sentence is on stderr.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "launch/launcher/key_values.hpp"

namespace {

using isthmus::launch::KeyValues;

/// Any bytes, different for each rank and round, zeros and line ends among them.
std::string value_of(std::uint32_t rank, unsigned round) {
  std::string value(5000 + rank + round, '\0');
  std::uint32_t state = (rank + 1) * 2654435761U + round;
  for (char& byte : value) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return value;
}

[[noreturn]] void give_up(const isthmus::Error& error, int status) {
  std::fprintf(stderr, "kvs_probe: %s\n", error.text().c_str());
  std::exit(status);
}

void must(const isthmus::Result<>& result) {
  if (!result) give_up(result.error(), 1);
}

void exchange(KeyValues& space) {
  for (unsigned round = 0; round < 2; ++round) {
    const std::string key = "value-" + std::to_string(round);
    must(space.put(key, value_of(space.rank(), round)));
    must(space.put("empty" + std::to_string(round), ""));
    must(space.fence());
    for (std::uint32_t rank = 0; rank < space.size(); ++rank) {
      const auto value = space.get(rank, key);
      if (!value) give_up(value.error(), 1);
      const auto empty = space.get(rank, "empty" + std::to_string(round));
      if (!empty) give_up(empty.error(), 1);
      if (*value != value_of(rank, round) || !empty->empty()) {
        std::fprintf(stderr, "kvs_probe: the value of rank %u is wrong\n", rank);
        std::exit(1);
      }
    }
  }
}

/// Whether a program started now would be a job of its own: no variable, no inherited socket from 3 on.
bool children_are_singletons() {
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view variable(*entry);
    if (variable.starts_with("PMI_RANK=") || variable.starts_with("PMI_SIZE=")) continue;  // no launcher's
    if (variable.starts_with("PMI_") || variable.starts_with("PMIX_")) return false;
  }
  const auto next = isthmus::launch::find_key_values();
  return next && *next == nullptr;
}

/// -1 where `fd` is no socket that a child would inherit.
int inherited_sockets() {
  int count = 0;
  for (int fd = 3; fd < 256; ++fd) {
    int type = 0;
    socklen_t bytes = sizeof type;
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0 && !(flags & FD_CLOEXEC) && ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0)
      ++count;
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "exchange";
  const int code = argc > 2 ? std::atoi(argv[2]) : 0;
  const int sockets_before = inherited_sockets();
  auto found = isthmus::launch::find_key_values();
  if (!found) give_up(found.error(), 3);
  if (!*found) {
    std::printf("singleton\n");
    return 0;
  }
  KeyValues& space = **found;
  if (mode == "abort") {
    must(space.fence());
    if (space.rank() == space.size() - 1) space.abort(code, "the end");
    for (;;)
      ::pause();
  }
  if (mode == "missing") {
    must(space.fence());
    const auto value = space.get(0, "nobody-put-this");
    std::printf("missing: %s\n", value ? "a value" : value.error().text().c_str());
  }
  if (mode == "children")
    std::printf("children: %s, %d sockets more\n", children_are_singletons() ? "singletons" : "ranks",
                inherited_sockets() - sockets_before);
  if (mode == "exchange") {
    exchange(space);
    std::printf("rank %u of %u, %s, universe %d, appnum %d, job %s\n", space.rank(), space.size(),
                std::string(space.protocol()).c_str(), space.universe(), space.appnum(),
                std::string(space.job()).c_str());
  }
  must(space.finalize());
  return mode == "exit" && space.rank() == 0 ? code : 0;
}
