#pragma once

#include "gpu/driver/cuda_api.hpp"

namespace isthmus::testing_cuda {

/// The driver that this program tests with, loaded and initialised. Throws if that does not work, which fails
/// the test.
const cuda::Functions& cuda_functions();

}  // namespace isthmus::testing_cuda
