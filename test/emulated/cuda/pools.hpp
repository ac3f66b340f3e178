#pragma once

#include <memory>
#include <vector>

#include "driver.hpp"

namespace isthmus::cuda {

struct PoolObject {
  Device device = 0;
  HandleType handle_types = HandleType::none;
  std::shared_ptr<emulated::Backing> backing;
  bool is_imported = false;
  /// Of its backing, in pieces: offset to bytes.
  std::map<std::size_t, std::size_t> free;
  std::vector<Device> accessible;
};

}  // namespace isthmus::cuda

namespace isthmus::emulated {

void make_default_pools(Driver& cuda);
/// Gives what an allocation of a pool occupies back to it. With the driver's mutex held.
void release_pool_memory(Driver& cuda, const Allocation& allocation);

}  // namespace isthmus::emulated
