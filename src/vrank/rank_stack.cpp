#include "vrank/rank_stack.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace isthmus::vrank {

Result<RankStack> RankStack::make(std::size_t bytes) {
  constexpr std::size_t page = 4096;
  bytes = (bytes + page - 1) / page * page + guard_bytes;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  const bool made = memory != MAP_FAILED;
  if (!made || ::mprotect(memory, guard_bytes, PROT_NONE) != 0) {
    const int error = errno;
    if (made) ::munmap(memory, bytes);
    return fail(ErrorClass::no_mem, "a stack of " + std::to_string(bytes >> 10) +
                                        " KiB for a rank: " + std::generic_category().message(error) +
                                        " (ISTHMUS_RANK_STACK says how large they are)");
  }
  return RankStack({static_cast<std::byte*>(memory), bytes});
}

RankStack::RankStack(RankStack&& other) noexcept : all_(std::exchange(other.all_, {})) {}

RankStack& RankStack::operator=(RankStack&& other) noexcept {
  std::swap(all_, other.all_);
  return *this;
}

RankStack::~RankStack() {
  if (!all_.empty()) ::munmap(all_.data(), all_.size());
}

bool RankStack::guards(const void* address) const noexcept {
  const auto* const at = static_cast<const std::byte*>(address);
  return !all_.empty() && at >= all_.data() && at < all_.data() + guard_bytes;
}

}  // namespace isthmus::vrank
