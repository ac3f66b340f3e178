#include "ledger.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "emulated_cuda.h"
#include "settings.hpp"

namespace isthmus::emulated {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(Held::count)> names{
    "device memory",
    "pinned memory",
    "registered host memory",
    "managed memory",
    "address reservation",
    "physical memory",
    "mapping",
    "pool",
    "pool memory",
    "imported pool",
    "imported pool pointer",
    "opened memory handle",
    "stream",
    "event",
    "opened event handle",
    "module",
    "library",
    "graph",
    "retained primary context",
    "context"};

constexpr int leak_status = 86;

/// The process that is watched: a child of fork() has opened nothing.
pid_t watched = 0;

void report_leaks() {
  if (::getpid() != watched || ledger().total() == 0) return;
  std::fprintf(stderr, "emulated cuda: still open at exit: %s\n", ledger().text().c_str());
  std::fflush(nullptr);
  if (variable("LEAKS") == "fail") ::_exit(leak_status);
}

}  // namespace

unsigned Ledger::total() const {
  unsigned sum = 0;
  for (const auto& count : counts_)
    sum += static_cast<unsigned>(std::max(count.load(), 0));
  return sum;
}

std::string Ledger::text() const {
  std::string result;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] <= 0) continue;
    if (!result.empty()) result += ", ";
    result += std::to_string(counts_[i].load()) + " x " + std::string(names[i]);
  }
  return result;
}

Ledger& ledger() {
  static auto* const instance = new Ledger;
  return *instance;
}

void watch_for_leaks() {
  if (variable("LEAKS").empty() || watched != 0) return;
  watched = ::getpid();
  std::atexit(report_leaks);
}

}  // namespace isthmus::emulated

extern "C" __attribute__((visibility("default"))) unsigned emulated_cuda_open_handles(char* text,
                                                                                      size_t bytes) {
  if (text && bytes > 0) std::snprintf(text, bytes, "%s", isthmus::emulated::ledger().text().c_str());
  return isthmus::emulated::ledger().total();
}
