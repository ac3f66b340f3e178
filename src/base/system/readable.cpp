#include "base/system/readable.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace isthmus {

bool is_readable(const void* address) noexcept {
  constexpr std::uintptr_t set_bytes = 8;
  constexpr int undefined = -1;
  const std::uintptr_t set = reinterpret_cast<std::uintptr_t>(address) / set_bytes * set_bytes;
  return set != 0 &&
         (::syscall(SYS_rt_sigprocmask, undefined, set, nullptr, set_bytes) == 0 || errno != EFAULT);
}

}  // namespace isthmus
