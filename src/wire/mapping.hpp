#pragma once

#include <cstdint>

#include "wire/descriptor.hpp"
#include "wire/ring.hpp"

/// What ranks of one host write to each other about memory that both can map. Each allocation of a process
/// has a number, which is never given again: so what is said of one cannot be taken for another at its
/// address.
namespace isthmus::wire {

/// Of `CellKind::memory_told`: the descriptor of one of the writer's allocations lies in the region's box.
struct MemoryTold {
  std::uint32_t number;
  std::uint32_t reserved;
  std::uint64_t address;  ///< of its first byte, in the writer's address space
  DescriptorTicket ticket;
};
/// Of `CellKind::memory_freed`: one that was told is no more. Of `CellKind::memory_missed`: the writer has
/// not mapped what the reader's offer lies in, and wants to be told.
struct MemoryNumber {
  std::uint32_t number;
  std::uint32_t reserved;
};
static_assert(sizeof(MemoryTold) <= inline_capacity && sizeof(MemoryNumber) <= inline_capacity);

}  // namespace isthmus::wire
