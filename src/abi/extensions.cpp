#include <mpi-ext.h>

#include <string>

#include "abi/call.hpp"
#include "abi/entry.hpp"

namespace isthmus::abi {

ISTHMUS_EXTENSION(int, Query_cuda_support)() {
  return MPIX_CUDA_AWARE_SUPPORT;
}

ISTHMUS_EXTENSION(int, GPU_query_support)(int gpu_type, int* is_supported) {
  return call_any_time("MPIX_GPU_query_support", [&](Runtime&) -> Result<> {
    if (auto given = check_pointer(is_supported, "is_supported"); !given) return given;
    switch (gpu_type) {
      case MPIX_GPU_SUPPORT_CUDA:
      case MPIX_GPU_SUPPORT_ZE:
      case MPIX_GPU_SUPPORT_HIP:
        *is_supported = 0;
        return {};
      default:
        return fail(ErrorClass::arg, "gpu_type " + std::to_string(gpu_type) + " is not a kind of GPU");
    }
  });
}

}  // namespace isthmus::abi
