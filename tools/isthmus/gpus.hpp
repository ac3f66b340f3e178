#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace isthmus::tool {

struct Gpu {
  std::string name;
  std::string uuid;
  std::string bus;          ///< PCI address
  std::uint64_t bytes = 0;  ///< of its memory; 0 where that is not known
};

struct Gpus {
  std::string driver;  ///< its version, empty where there is none
  std::vector<Gpu> all;
};

/// NVIDIA's, asked of NVML where it can be loaded, else read from /proc/driver/nvidia. CUDA is not touched:
/// to initialise it takes a part of a second and memory on each GPU.
Gpus find_gpus();

}  // namespace isthmus::tool
