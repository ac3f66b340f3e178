#include <stdexcept>

#include "cuda_functions.hpp"
#include "gpu/driver/cuda_driver.hpp"
#include "kernels_fixture.hpp"

namespace isthmus::testing_cuda {

const cuda::Functions& cuda_functions() {
  static auto* const driver = new CudaDriver;
  const auto functions = driver->open();
  if (!functions) throw std::runtime_error(functions.error().text());
  return **functions;
}

std::span<const std::byte> tested_kernels() {
  return kernel_image();
}

}  // namespace isthmus::testing_cuda
