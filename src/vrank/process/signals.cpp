#include "vrank/process/signals.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "vrank/process/process.hpp"

namespace isthmus::vrank {
namespace {

constexpr std::array deadly{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/// Text without memory and without buffers, for signal handlers.
class Line {
 public:
  Line& operator<<(std::string_view text) noexcept {
    const std::size_t taken = std::min(text.size(), text_.size() - size_);
    std::memcpy(text_.data() + size_, text.data(), taken);
    size_ += taken;
    return *this;
  }
  Line& operator<<(std::uint64_t number) noexcept {
    std::array<char, 20> digits{};
    std::size_t at = digits.size();
    do
      digits[--at] = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    return *this << std::string_view(digits.data() + at, digits.size() - at);
  }
  void print() noexcept {
    *this << "\n";
    static_cast<void>(::write(STDERR_FILENO, text_.data(), size_) < 0);
  }

 private:
  std::array<char, 400> text_{};
  std::size_t size_ = 0;
};

/// The process dies of `signal`, in the turn of one of its ranks.
void tell(int signal, const void* address) noexcept {
  const Rank* const rank = Process::current();
  if (!rank || !rank->process->is_own()) return;
  rank->process->note(*rank, wire::Ending::was_killed | static_cast<std::uint32_t>(signal));
  if ((signal == SIGSEGV || signal == SIGBUS) && rank->stack.guards(address)) {
    Line line;
    line << "isthmus: rank " << rank->number << " has run over its stack of " << (rank->stack.bytes() >> 10)
         << " KiB; -x ISTHMUS_RANK_STACK=" << (rank->stack.bytes() >> 18)
         << "M or a higher `ulimit -s` gives the ranks of a process larger ones";
    line.print();
  }
}

void die_of(int signal, siginfo_t* info, void* /*context*/) {
  tell(signal, info ? info->si_addr : nullptr);
  // As it would have without this handler: what has raised it is done once more.
  ::signal(signal, SIG_DFL);
  if (signal == SIGABRT || info->si_code <= 0) ::raise(signal);
}

}  // namespace

void watch_signals() {
  struct sigaction action{};
  action.sa_sigaction = die_of;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : deadly)
    ::sigaction(signal, &action, nullptr);
}

void give_signals_a_stack() {
  constexpr std::size_t bytes = std::size_t{64} << 10;
  stack_t alternate{};
  alternate.ss_size = bytes;
  alternate.ss_sp = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (alternate.ss_sp != MAP_FAILED) ::sigaltstack(&alternate, nullptr);
}

}  // namespace isthmus::vrank
