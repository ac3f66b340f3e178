#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/cuda_types.hpp"

namespace isthmus {

class Courier;

/// A message that a courier has taken.
struct GpuErrand {
  Courier* courier;
  std::uint64_t number;
  cuda::Device device;
  std::byte* to;
  const std::byte* from;
  std::uint64_t bytes;
};

}  // namespace isthmus
