#include "emulated_control.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <stdexcept>

namespace isthmus::testing_cuda {

std::string emulated_path() {
  if (const char* other = std::getenv("ISTHMUS_TEST_CUDA")) return other;
  const auto folder = std::filesystem::canonical("/proc/self/exe").parent_path();
  return folder / "emulated/libcuda.so.1";
}

const Control& load_emulated() {
  static const Control control = [] {
    void* object = dlopen(emulated_path().c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!object) throw std::runtime_error(dlerror());
    Control made;
    const auto take = [object](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(object, name));
      if (!function) throw std::runtime_error(std::string("no ") + name);
    };
    take(made.register_twins, "emulated_cuda_register");
    take(made.view, "emulated_cuda_view");
    take(made.set, "emulated_cuda_set");
    take(made.calls, "emulated_cuda_calls");
    take(made.open_handles, "emulated_cuda_open_handles");
    return made;
  }();
  return control;
}

void* symbol(const char* name) {
  load_emulated();
  void* found = dlsym(dlopen(emulated_path().c_str(), RTLD_NOW | RTLD_NOLOAD), name);
  if (!found) throw std::runtime_error(std::string("no ") + name);
  return found;
}

const cuda::Functions& cuda_functions() {
  static auto* const driver = new CudaDriver;
  load_emulated();
  const auto functions = driver->open(emulated_path().c_str());
  if (!functions) throw std::runtime_error(functions.error().text());
  return **functions;
}

}  // namespace isthmus::testing_cuda
