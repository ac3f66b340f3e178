#pragma once

#include <memory>

#include "suite/gpu/gpu.hpp"
#include "suite/job/grid.hpp"

namespace isthmus::bench {

// In device memory, computed by kernels; lives no longer than the GPU.
std::unique_ptr<Grid> make_gpu_grid(const Gpu& gpu, const Shape& shape);

}  // namespace isthmus::bench
