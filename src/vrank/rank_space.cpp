#include "vrank/rank_space.hpp"

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

namespace isthmus::vrank {

Result<std::span<std::byte>> map_before(std::uint64_t end, std::size_t bytes, const char* what,
                                        int more_flags) {
  auto* const wanted = reinterpret_cast<void*>(end - bytes);  // NOLINT(performance-no-int-to-ptr)
  void* const memory =
      ::mmap(wanted, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE | more_flags, -1, 0);
  if (memory == wanted) return std::span(static_cast<std::byte*>(memory), bytes);
  // A kernel before 4.17 does not know the flag, and takes the address as a wish.
  const int error = memory == MAP_FAILED ? errno : EEXIST;
  if (memory != MAP_FAILED) ::munmap(memory, bytes);
  std::array<char, 32> address{};
  static_cast<void>(
      std::snprintf(address.data(), address.size(), "%#llx", static_cast<unsigned long long>(end)));
  return fail(ErrorClass::no_mem, std::string(what) + ", " + std::to_string(bytes >> 10) + " KiB below " +
                                      address.data() + ": " + std::generic_category().message(error));
}

}  // namespace isthmus::vrank
