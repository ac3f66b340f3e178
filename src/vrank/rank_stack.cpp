#include "vrank/rank_stack.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "vrank/rank_space.hpp"

namespace isthmus::vrank {

Result<RankStack> RankStack::make(std::uint64_t end, std::size_t bytes) {
  constexpr std::size_t page = 4096;
  bytes = (bytes + page - 1) / page * page + guard_bytes;
  auto memory =
      map_before(end, bytes, "the stack of a rank (ISTHMUS_RANK_STACK says how large they are)", MAP_STACK);
  if (!memory) return std::unexpected(std::move(memory).error());
  RankStack stack(*memory);
  if (::mprotect(memory->data(), guard_bytes, PROT_NONE) != 0)
    return fail(ErrorClass::no_mem,
                "the guard below a rank's stack: " + std::generic_category().message(errno));
  return stack;
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
