#pragma once

#include <unistd.h>

#include <array>
#include <cstdint>

namespace isthmus {

/// Addresses that can be nothing but ordinary host memory: the program's own data, its heap below the break,
/// and the main thread's stack. They never change hands, so no driver needs to be asked; 2 ns.
class HostRanges {
 public:
  /// Of this process. Costs the reading of one small file.
  HostRanges();

  [[nodiscard]] bool contains(const void* address) const noexcept {
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    for (const Range& range : ranges_)
      if (value - range.begin < range.size) return true;
    return value >= heap_ && value < reinterpret_cast<std::uintptr_t>(::sbrk(0));
  }

 private:
  struct Range {
    std::uintptr_t begin = 0, size = 0;
  };
  /// The stack, and the program's writable segments; not those of libraries, which may be unloaded.
  std::array<Range, 3> ranges_;
  std::uintptr_t heap_;
};

}  // namespace isthmus
