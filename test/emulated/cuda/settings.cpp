#include "settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "emulated_cuda.h"

namespace isthmus::emulated {
namespace {

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<unsigned> refusals(std::string_view text) {
  constexpr std::array<std::string_view, 7> names{"peer", "ipc", "event", "vmm", "pool", "managed", "memops"};
  unsigned bits = 0;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const auto* const name = std::find(names.begin(), names.end(), text.substr(0, comma));
    if (name == names.end()) return std::nullopt;
    bits |= 1U << (name - names.begin());
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return bits;
}

constexpr std::array changeable{"MEMORY",   "PINNED",       "DELAY_US", "MEGABYTES_PER_SECOND",
                                "REFUSE",   "STICKY_AFTER", "STICKY",   "MOVES",
                                "SHUFFLE",  "WRITES_US",    "READS_US", "HOST_US",
                                "GRAPH_US", "KERNEL_US",    "START_US"};

}  // namespace

bool Settings::set(std::string_view name, std::string_view value) {
  if (name == "REFUSE") {
    const auto bits = refusals(value);
    if (bits) refused = *bits;
    return bits.has_value();
  }
  const auto parsed = number_in(value);
  if (!parsed) return false;
  if (name == "MEMORY")
    memory = *parsed;
  else if (name == "PINNED")
    pinned = *parsed;
  else if (name == "DELAY_US")
    delay_us = static_cast<unsigned>(*parsed);
  else if (name == "MEGABYTES_PER_SECOND")
    megabytes_per_second = static_cast<unsigned>(*parsed);
  else if (name == "WRITES_US")
    writes_us = static_cast<unsigned>(*parsed);
  else if (name == "READS_US")
    reads_us = static_cast<unsigned>(*parsed);
  else if (name == "HOST_US")
    host_us = static_cast<unsigned>(*parsed);
  else if (name == "START_US")
    start_us = static_cast<unsigned>(*parsed);
  else if (name == "GRAPH_US")
    graph_us = static_cast<unsigned>(*parsed);
  else if (name == "KERNEL_US")
    kernel_us = static_cast<unsigned>(*parsed);
  else if (name == "STICKY")
    sticky = static_cast<int>(*parsed);
  else if (name == "SHUFFLE")
    shuffle = *parsed;
  else if (name == "MOVES")
    moves = *parsed;
  else if (name == "STICKY_AFTER")
    sticky_after = *parsed + call_counter().load();
  else
    return false;
  return true;
}

void Settings::read_environment() {
  for (const char* name : changeable)
    if (const std::string value = variable(name); !value.empty()) set(name, value);
}

Settings& settings() {
  static auto* const instance = new Settings;
  return *instance;
}

std::string variable(const char* name) {
  const char* value = std::getenv((std::string("EMULATED_CUDA_") + name).c_str());
  return value ? value : "";
}

std::atomic<std::uint64_t>& call_counter() {
  static std::atomic<std::uint64_t> calls{0};
  return calls;
}

}  // namespace isthmus::emulated

extern "C" {

__attribute__((visibility("default"))) int emulated_cuda_set(const char* name, const char* value) {
  return isthmus::emulated::settings().set(name, value) ? 0 : -1;
}

__attribute__((visibility("default"))) unsigned long long emulated_cuda_calls(void) {
  return isthmus::emulated::call_counter().load();
}
}
