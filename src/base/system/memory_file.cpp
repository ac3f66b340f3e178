#include "base/system/memory_file.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

namespace isthmus {

UniqueFd make_memory_file() {
  // Not executable where the kernel knows the flag (6.3 and later, where an administrator may demand it).
  constexpr unsigned no_exec_seal = 0x0008U;  // MFD_NOEXEC_SEAL, newer than Debian 12's headers
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = ::memfd_create("isthmus", flags | no_exec_seal);
  return UniqueFd(fd >= 0 || errno != EINVAL ? fd : ::memfd_create("isthmus", flags));
}

bool set_size(const UniqueFd& file, std::uint64_t bytes) {
  // Beyond this limit `ftruncate` raises a signal that would end the process before it can say why.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  return ::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0;
}

}  // namespace isthmus
