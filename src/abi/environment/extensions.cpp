#include <mpi-ext.h>

#include <string>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"

namespace isthmus::abi {

ISTHMUS_EXTENSION(int, Query_cuda_support)() {
  return Runtime::get().cuda.is_there() ? 1 : 0;
}

ISTHMUS_EXTENSION(int, GPU_query_support)(int gpu_type, int* is_supported) {
  return call_any_time("MPIX_GPU_query_support", [&](Runtime& runtime) -> Result<> {
    if (auto given = check_pointer(is_supported, "is_supported"); !given) return given;
    switch (gpu_type) {
      case MPIX_GPU_SUPPORT_CUDA:
        *is_supported = runtime.cuda.is_there() ? 1 : 0;
        return {};
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
