#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace isthmus {

/// Asks the kernel to take the whole pages within `memory`, which lies in a shared mapping and has not been
/// touched, from NUMA node `node` (mbind, MPOL_PREFERRED): wherever they are touched first, and by whom.
/// Whether it did so; without it they come from the node of whoever touches them first.
bool prefer_node(std::span<std::byte> memory, std::int32_t node) noexcept;

}  // namespace isthmus
