// The program's addresses of GPU memory have no rights: what loads or stores there by the processor ends
// here.
#include "guard.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>

#include "driver.hpp"

namespace isthmus::emulated {
namespace {

struct sigaction& earlier() {
  static struct sigaction action;
  return action;
}

void say(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

/// Does only what a signal's handler may.
void touched(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (const Driver* cuda = driver(); cuda && cuda->addresses.is_ours(address)) {
    char digits[2 * sizeof address];
    for (std::size_t i = 0; i < sizeof digits; ++i)
      digits[i] = "0123456789abcdef"[address >> (4 * (sizeof digits - 1 - i)) & 15U];
    say("emulated cuda: a processor touched GPU memory at 0x");
    say({digits, sizeof digits});
    say(", which only GPUs reach\n");
  }
  // The access is made again, and has whatever consequences it had before.
  ::sigaction(SIGSEGV, &earlier(), nullptr);
}

}  // namespace

void watch_touches() {
  struct sigaction action{};
  action.sa_sigaction = touched;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, &earlier());
}

}  // namespace isthmus::emulated
