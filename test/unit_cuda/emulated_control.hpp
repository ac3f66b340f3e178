#pragma once

#include <string>

#include "cuda_functions.hpp"
#include "emulated_cuda.h"
#include "gpu/driver/cuda_api.hpp"
#include "gpu/driver/cuda_driver.hpp"

namespace isthmus::testing_cuda {

/// What the emulated driver has beyond the real one.
struct Control {
  decltype(&::emulated_cuda_register) register_twins = nullptr;
  decltype(&::emulated_cuda_view) view = nullptr;
  decltype(&::emulated_cuda_set) set = nullptr;
  decltype(&::emulated_cuda_calls) calls = nullptr;
  decltype(&::emulated_cuda_open_handles) open_handles = nullptr;
};

/// Where the build has put it: beside this program.
std::string emulated_path();
/// Brings it into the process as a program's own link with libcuda does, once, and sets up leak reports. Does
/// not initialise it.
const Control& load_emulated();

/// A function of the driver that the library does not use.
void* symbol(const char* name);

/// A fault for as long as this lives.
class Fault {
 public:
  Fault(const char* name, const char* value, const char* normal) : name_(name), normal_(normal) {
    load_emulated().set(name, value);
  }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
  ~Fault() { load_emulated().set(name_, normal_); }

 private:
  const char* name_;
  const char* normal_;
};

}  // namespace isthmus::testing_cuda
