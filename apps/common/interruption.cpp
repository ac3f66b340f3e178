#include "common/interruption.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

namespace apps {
namespace {

struct Line {
  std::array<char, 128> text{};
  std::size_t length = 0;
};

// A signal handler sees nothing but globals. It reads the line that `shown` points to, while the other is
// written.
std::array<Line, 2> lines;
std::atomic<const Line*> shown = nullptr;
static_assert(std::atomic<const Line*>::is_always_lock_free);

constexpr std::array signals{SIGINT, SIGTERM};

}  // namespace

extern "C" {
static void say_and_die(int number) {
  if (const Line* line = shown.load(std::memory_order_acquire)) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line->text.data(), line->length);
  }
  raise(number);  // pending until this returns; SA_RESETHAND has restored what it does otherwise
}
}

Interruption::Interruption(std::string program, bool speaks) : program_(std::move(program)), speaks_(speaks) {
  if (!speaks_) return;
  reached("at the start");
  struct sigaction action{};
  action.sa_handler = say_and_die;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : signals)
    sigaction(number, &action, nullptr);
}

Interruption::~Interruption() {
  if (!speaks_) return;
  for (const int number : signals)
    signal(number, SIG_DFL);
  shown.store(nullptr, std::memory_order_release);
}

void Interruption::reached(const std::string& where) {
  if (!speaks_) return;
  const std::string said = program_ + ": interrupted " + where + "\n";
  Line& line = lines[next_];
  line.length = std::min(said.size(), line.text.size());
  std::copy_n(said.begin(), line.length, line.text.begin());
  shown.store(&line, std::memory_order_release);
  next_ = 1 - next_;
}

}  // namespace apps
