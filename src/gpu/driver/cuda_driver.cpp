#include "gpu/driver/cuda_driver.hpp"

#include <dlfcn.h>

#include "gpu/driver/cuda_error.hpp"

namespace isthmus {
namespace {

/// Fills the table; the names of what the object lacks and every driver has, with commas between.
std::string resolve(void* object, cuda::Functions& functions) {
  std::string missing;
  const auto take = [&]<class Function>(Function*& function, const char* symbol) {
    function = reinterpret_cast<Function*>(dlsym(object, symbol));
    if (!function) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  };
#define ISTHMUS_TAKE_(name, symbol, parameters) take(functions.name, #symbol);
  ISTHMUS_CUDA_FUNCTIONS(ISTHMUS_TAKE_)
#undef ISTHMUS_TAKE_
#define ISTHMUS_TRY_(name, symbol, parameters) \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(object, #symbol));
  ISTHMUS_CUDA_LATER_FUNCTIONS(ISTHMUS_TRY_)
#undef ISTHMUS_TRY_
  return missing;
}

}  // namespace

bool CudaDriver::take(void* object) {
  if (missing_.empty()) missing_ = resolve(object, functions_);
  is_loaded_ = missing_.empty();
  if (is_loaded_) is_absent_.store(false, std::memory_order_relaxed);
  return is_loaded_;
}

const cuda::Functions* CudaDriver::look() noexcept {
  const std::scoped_lock lock(mutex_);
  if (!is_loaded_) {
    // The object stays loaded from here on, because its functions are kept.
    void* object = dlopen(default_file, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (!object || !take(object)) {
      is_absent_.store(true, std::memory_order_relaxed);
      return nullptr;
    }
  }
  cuda::Context context = nullptr;
  if (functions_.context_current(&context) == cuda::Status::not_initialized) return nullptr;
  ready_.store(&functions_, std::memory_order_release);
  return &functions_;
}

Result<const cuda::Functions*> CudaDriver::open(const char* file) {
  const std::scoped_lock lock(mutex_);
  if (!is_loaded_) {
    void* object = dlopen(file, RTLD_NOW | RTLD_NODELETE);
    if (!object) {
      const char* reason = dlerror();
      return fail(ErrorClass::unsupported_operation, "the CUDA driver is not there (" +
                                                         std::string(reason ? reason : file) +
                                                         "): memory of GPUs cannot be sent or received");
    }
    if (!take(object))
      return fail(ErrorClass::unsupported_operation,
                  "the CUDA driver is older than release 12.2 and lacks " + missing_);
  }
  if (const cuda::Status status = functions_.init(0); status != cuda::Status::success)
    return cuda::fail(functions_, status, "start");
  ready_.store(&functions_, std::memory_order_release);
  return &functions_;
}

bool CudaDriver::is_there(const char* file) {
  const std::scoped_lock lock(mutex_);
  if (is_loaded_) return true;
  void* object = dlopen(file, RTLD_LAZY | RTLD_NODELETE);
  return object && take(object);
}

std::string CudaDriver::complaint() const {
  const std::scoped_lock lock(mutex_);
  if (missing_.empty()) return {};
  return "the CUDA driver of this process is older than release 12.2 and lacks " + missing_ +
         ": memory of GPUs cannot be sent or received";
}

}  // namespace isthmus
