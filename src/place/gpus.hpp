#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "place/cpu_set.hpp"

namespace isthmus {

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

/// The address as sysfs writes it: "0000:19:00.0".
std::string pci_address(std::string_view bus);

/// The hardware threads that are as near to the GPU as any; nothing where sysfs does not say.
std::optional<CpuSet> cpus_near(const Gpu& gpu);

}  // namespace isthmus
