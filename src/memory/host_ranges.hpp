#pragma once

#include <unistd.h>

#include <array>
#include <cstdint>

namespace isthmus {

/// Addresses that can be nothing but ordinary host memory: the program's own data, its heap below the break,
/// and the main thread's stack. They never change hands, so no driver needs to be asked; 3 ns.
class HostRanges {
 public:
  /// Of this process as it is now. The heap grows on its own, and what the stack had by now stays its.
  HostRanges();

  [[nodiscard]] bool contains(const void* address) const noexcept {
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    if (value - stack_.begin < stack_.size) return true;
    for (const Range& range : data_)
      if (value - range.begin < range.size) return true;
    return value >= heap_ && value < reinterpret_cast<std::uintptr_t>(::sbrk(0));
  }

 private:
  struct Range {
    std::uintptr_t begin = 0, size = 0;
  };
  Range stack_;
  std::array<Range, 2> data_;  ///< of the program, not of libraries, which may be unloaded
  std::uintptr_t heap_ = UINTPTR_MAX;
};

}  // namespace isthmus
