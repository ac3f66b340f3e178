#pragma once

#include <cstdint>

#include "gpu/memory/buffer.hpp"

namespace isthmus {

/// What names an allocation in this process, and never another: CUDA's buffer id. VMM memory is named by its
/// physical memory, because addresses may be mapped to another; a bit sets those ids apart.
constexpr std::uint64_t allocation_id(MemoryKind kind, std::uint64_t buffer, std::uint64_t block) noexcept {
  constexpr std::uint64_t vmm_bit = std::uint64_t{1} << 63U;
  return kind == MemoryKind::vmm ? block | vmm_bit : buffer;
}

}  // namespace isthmus
