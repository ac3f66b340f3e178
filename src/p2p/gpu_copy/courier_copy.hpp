#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/driver/cuda_context.hpp"

namespace isthmus {

class Courier;

/// A message that a courier has taken. After a reset of the device, the courier may be no more.
struct CourierCopy {
  Courier* courier;
  std::uint64_t number;
  cuda::Device device;
  cuda::ContextLife life;
  std::byte* to;
  const std::byte* from;
  std::uint64_t bytes;
};

}  // namespace isthmus
