#include <stdexcept>

#include "cuda_functions.hpp"
#include "memory/cuda_driver.hpp"

namespace isthmus::testing_cuda {

const cuda::Functions& cuda_functions() {
  static auto* const driver = new CudaDriver;
  const auto functions = driver->open();
  if (!functions) throw std::runtime_error(functions.error().text());
  return **functions;
}

}  // namespace isthmus::testing_cuda
