#pragma once

#include "gpu/driver/cuda_api.hpp"

/// The driver's functions beyond those that the library uses: what tests, and programs over the emulated
/// driver, need besides. In the form of `ISTHMUS_CUDA_FUNCTIONS`.
#define ISTHMUS_EMULATED_FUNCTIONS(X)                                                                       \
  X(, cuCtxCreate_v2, (::isthmus::cuda::Context * context, unsigned flags, ::isthmus::cuda::Device device)) \
  X(, cuCtxDestroy_v2, (::isthmus::cuda::Context context))                                                  \
  X(, cuDevicePrimaryCtxReset_v2, (::isthmus::cuda::Device device))                                         \
  X(, cuCtxGetStreamPriorityRange, (int* least, int* greatest))                                             \
  X(, cuMemAllocHost_v2, (void** address, std::size_t bytes))                                               \
  X(, cuMemAdvise_v2,                                                                                       \
    (::isthmus::cuda::Address address, std::size_t bytes, ::isthmus::cuda::Advice advice,                   \
     ::isthmus::cuda::Location location))                                                                   \
  X(, cuMemAllocAsync,                                                                                      \
    (::isthmus::cuda::Address * address, std::size_t bytes, ::isthmus::cuda::Stream stream))                \
  X(, cuDeviceGetMemPool, (::isthmus::cuda::Pool * pool, ::isthmus::cuda::Device device))                   \
  X(, cuDeviceSetMemPool, (::isthmus::cuda::Device device, ::isthmus::cuda::Pool pool))                     \
  X(, cuMemPoolSetAttribute,                                                                                \
    (::isthmus::cuda::Pool pool, ::isthmus::cuda::PoolAttribute attribute, void* value))                    \
  X(, cuMemPoolTrimTo, (::isthmus::cuda::Pool pool, std::size_t bytes))                                     \
  X(, cuMemcpyHtoD_v2, (::isthmus::cuda::Address to, const void* from, std::size_t bytes))                  \
  X(, cuMemcpyDtoH_v2, (void* to, ::isthmus::cuda::Address from, std::size_t bytes))                        \
  X(, cuMemcpyDtoD_v2, (::isthmus::cuda::Address to, ::isthmus::cuda::Address from, std::size_t bytes))     \
  X(, cuMemsetD32_v2, (::isthmus::cuda::Address to, unsigned value, std::size_t count))                     \
  X(, cuEventElapsedTime, (float* milliseconds, ::isthmus::cuda::Event from, ::isthmus::cuda::Event to))    \
  X(, cuGetProcAddress_v2, (const char* name, void** function, int version, std::uint64_t flags, int* found))

namespace isthmus::emulated {

using namespace cuda;  // the types of every function here

#define ISTHMUS_DECLARE_(name, symbol, parameters) \
  __attribute__((visibility("default"))) Status symbol parameters;
extern "C" {
ISTHMUS_CUDA_FUNCTIONS(ISTHMUS_DECLARE_)
ISTHMUS_CUDA_LATER_FUNCTIONS(ISTHMUS_DECLARE_)
ISTHMUS_EMULATED_FUNCTIONS(ISTHMUS_DECLARE_)
}
#undef ISTHMUS_DECLARE_

/// What every function begins with, which needs an initialised driver without a sticky error. Counts the
/// call.
Status enter();
/// The same for questions that are answered after a sticky error too.
Status enter_query();

}  // namespace isthmus::emulated

/// Leaves the enclosing function with a status that is not success.
#define ISTHMUS_PASS(expression)                                      \
  do {                                                                \
    if (const ::isthmus::cuda::Status isthmus_status_ = (expression); \
        isthmus_status_ != ::isthmus::cuda::Status::success)          \
      return isthmus_status_;                                         \
  } while (false)
