#pragma once

#include <cstdint>

namespace isthmus {

/// A message that `LiveGpuPlans` knows to be under way; kept with its receive.
struct GpuTransferMark {
  std::uint32_t epoch = 0;  ///< 0: it is not
  std::uint32_t batch = 0;  ///< the number of the one that it is of; 0: of none
};

}  // namespace isthmus
