#pragma once

#include <memory>
#include <vector>

#include "driver.hpp"
#include "memory/free_ranges.hpp"

namespace isthmus::cuda {

struct PoolObject {
  Device device = 0;
  HandleType handle_types = HandleType::none;
  std::shared_ptr<emulated::Backing> backing;
  bool is_imported = false;
  emulated::FreeRanges free;  ///< offsets in its backing
  std::vector<Device> accessible;
};

}  // namespace isthmus::cuda

namespace isthmus::emulated {

void make_default_pools(Driver& cuda);
/// Gives what an allocation of a pool occupies back to it. With the driver's mutex held.
void release_pool_memory(Driver& cuda, const Allocation& allocation);

}  // namespace isthmus::emulated
