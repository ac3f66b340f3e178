#include "machine/memory_access.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/unique_fd.hpp"
#include "channel/cma/cma.hpp"

namespace isthmus::tool {
namespace {

constexpr std::uint64_t nonce = 0x6973'7468'6d75'7321;

/// What the target offers: at this address in both processes, but with the nonce in the target alone.
cma::Probe probe{};

/// Stands still with the nonce in its memory until it is killed.
[[noreturn]] void be_target(int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // as every rank does, for machines with Yama
  probe.nonce = nonce;
  const char byte = 1;
  [[maybe_unused]] const ssize_t written = ::write(ready, &byte, 1);
  for (;;)
    ::pause();
}

/// Writes both refusals, each ended by a zero.
[[noreturn]] void be_reader(pid_t target, int answers) {
  const auto address = reinterpret_cast<std::uint64_t>(&probe);
  for (const auto& result : {cma::try_read(target, address, nonce), cma::try_write(target, address, nonce)}) {
    const std::string text = result ? "" : result.error().text();
    [[maybe_unused]] const ssize_t written = ::write(answers, text.c_str(), text.size() + 1);
  }
  ::_exit(0);
}

std::string read_answers(int fd) {
  std::string text;
  std::array<char, 1024> buffer;
  for (ssize_t count; (count = ::read(fd, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(count));
  return text;
}

struct Pipe {
  UniqueFd reader, writer;
  bool open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    reader = UniqueFd(ends[0]);
    writer = UniqueFd(ends[1]);
    return true;
  }
};

}  // namespace

MemoryAccess try_memory_access() {
  const auto not_tried = [] {
    const std::string why = std::string("cannot be tried: ") + std::strerror(errno);
    return MemoryAccess{why, why};
  };
  Pipe ready, answers;
  if (!ready.open()) return not_tried();
  const pid_t target = ::fork();
  if (target < 0) return not_tried();
  if (target == 0) be_target(ready.writer.get());
  ready.writer.reset();
  char byte = 0;
  [[maybe_unused]] const ssize_t count = ::read(ready.reader.get(), &byte, 1);
  const pid_t reader = answers.open() ? ::fork() : -1;  // only now: the target must not hold it open
  if (reader == 0) be_reader(target, answers.writer.get());
  answers.writer.reset();
  const std::string text = read_answers(answers.reader.get());
  for (const pid_t pid : {target, reader}) {
    if (pid == target) ::kill(pid, SIGKILL);
    if (pid > 0) ::waitpid(pid, nullptr, 0);
  }
  const std::size_t end = text.find('\0');
  if (end == std::string::npos || text.back() != '\0') return not_tried();
  return {text.substr(0, end), text.substr(end + 1, text.size() - end - 2)};
}

}  // namespace isthmus::tool
