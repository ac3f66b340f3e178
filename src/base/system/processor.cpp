#include "base/system/processor.hpp"

#if defined(__x86_64__)
#include <cpuid.h>

#include <array>
#include <cstring>
#include <string_view>
#endif

namespace isthmus {
namespace {

bool ask() noexcept {
#if defined(__x86_64__)
  unsigned highest = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &highest, &b, &c, &d) == 0) return false;
  std::array<char, 12> vendor{};
  std::memcpy(vendor.data(), &b, 4);
  std::memcpy(vendor.data() + 4, &d, 4);
  std::memcpy(vendor.data() + 8, &c, 4);
  const std::string_view name(vendor.data(), vendor.size());
  return name == "AuthenticAMD" || name == "HygonGenuine";
#else
  return false;
#endif
}

}  // namespace

bool hands_on_written_lines() noexcept {
  static const bool found = ask();
  return found;
}

}  // namespace isthmus
