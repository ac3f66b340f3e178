#pragma once

#include "memory/memory.hpp"

namespace isthmus::emulated {

/// Where the copy engine finds a range of addresses.
struct Place {
  std::byte* view = nullptr;
  std::shared_ptr<Allocation> allocation;  ///< the first; null for pageable memory; keeps it mapped
};

/// Fails for ranges that reach past their allocation, or past the last of several that are mapped side by
/// side, and for addresses of the driver's at which nothing lies, or nothing that `device` was given access
/// to. Takes the driver's mutex.
Status locate(Address address, std::size_t bytes, Device device, Place& place);

}  // namespace isthmus::emulated
