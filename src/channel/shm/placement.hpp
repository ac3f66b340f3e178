#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/region.hpp"

namespace isthmus {

/// Asks the kernel to take the whole pages within `memory`, which lies in a shared mapping and has not been
/// touched, from NUMA node `node` (mbind, MPOL_PREFERRED): wherever they are touched first, and by whom.
/// Whether it did so; without it they come from the node of whoever touches them first.
bool prefer_node(std::span<std::byte> memory, std::int32_t node) noexcept;

/// Has the kernel map the whole pages within `memory`, which lies in a shared mapping, for reading and
/// writing at once instead of one by one when they are touched. Where the kernel cannot (before Linux 5.14,
/// or without memory for all of it) nothing is lost: they are mapped when they are touched.
void map_pages(std::span<std::byte> memory) noexcept;

/// The same for the ring from one slot of a region to another, where there is one. In a new ring the first
/// messages take 43 us for 64 KiB, and later ones 1.8.
void map_ring(const wire::RegionView& region, std::uint32_t from, std::uint32_t to) noexcept;

}  // namespace isthmus
