#pragma once

#include "contexts.hpp"

namespace isthmus::emulated {

/// Counts so many bytes as used on the device; false if it has not got them.
bool charge(Driver& cuda, Device device, std::size_t bytes);
void discharge(Driver& cuda, Device device, std::size_t bytes);

/// A new allocation in the table, with an id of its own.
std::shared_ptr<Allocation> add_allocation(Driver& cuda, Allocation allocation);
/// Takes an allocation and what it holds out of the world, whatever it is.
void forget(Driver& cuda, const Allocation& allocation);

/// Gives the process itself the memory at these addresses of the arena, as managed memory is.
bool make_readable(const Allocation& allocation);

}  // namespace isthmus::emulated
