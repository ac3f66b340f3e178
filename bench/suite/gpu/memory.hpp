// Buffers in GPU memory, by the CUDA driver's functions, loaded when the first is made: the suite needs no
// toolkit.
#pragma once

#include <memory>

#include "suite/job/buffer.hpp"

namespace isthmus::bench {

std::unique_ptr<Memory> make_gpu_memory(Placement placement, int local_rank, bool count_faults);

}  // namespace isthmus::bench
