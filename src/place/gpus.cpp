#include "place/gpus.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace isthmus {
namespace {

namespace fs = std::filesystem;

// NVML's interface as its header declares it (nvml.h of CUDA 12), as far as it is used.
using NvmlDevice = void*;
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlPci {
  char short_bus[16];
  unsigned domain, bus, device, ids, subsystem_ids;
  char bus_id[32];
};

/// NVML, loaded and initialised.
class Nvml {
 public:
  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    works_ = library_ && call<int()>("nvmlInit_v2") == 0;
  }
  ~Nvml() {
    if (works_) call<int()>("nvmlShutdown");
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] bool works() const { return works_; }

  [[nodiscard]] Gpus list() const {
    Gpus gpus;
    std::array<char, 96> text{};
    if (call<int(char*, unsigned)>("nvmlSystemGetDriverVersion", text.data(), text.size()) == 0)
      gpus.driver = text.data();
    unsigned count = 0;
    call<int(unsigned*)>("nvmlDeviceGetCount_v2", &count);
    for (unsigned i = 0; i < count; ++i) {
      NvmlDevice device = nullptr;
      if (call<int(unsigned, NvmlDevice*)>("nvmlDeviceGetHandleByIndex_v2", i, &device) != 0) continue;
      Gpu gpu;
      if (call<int(NvmlDevice, char*, unsigned)>("nvmlDeviceGetName", device, text.data(), text.size()) == 0)
        gpu.name = text.data();
      if (call<int(NvmlDevice, char*, unsigned)>("nvmlDeviceGetUUID", device, text.data(), text.size()) == 0)
        gpu.uuid = text.data();
      NvmlPci pci{};
      if (call<int(NvmlDevice, NvmlPci*)>("nvmlDeviceGetPciInfo_v3", device, &pci) == 0) gpu.bus = pci.bus_id;
      NvmlMemory memory{};
      if (call<int(NvmlDevice, NvmlMemory*)>("nvmlDeviceGetMemoryInfo", device, &memory) == 0)
        gpu.bytes = memory.total;
      gpus.all.push_back(std::move(gpu));
    }
    return gpus;
  }

 private:
  static constexpr int missing = -1;

  /// What the function answers; `missing` where this NVML lacks it.
  template <class Function, class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<Function*>(::dlsym(library_, name));
    return function ? function(arguments...) : missing;
  }

  void* library_;  ///< never closed: it has threads
  bool works_ = false;
};

/// "Model: \t\t NVIDIA H100" in a file of the driver.
std::string value_in(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name))
      if (const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
          begin != std::string::npos)
        return line.substr(begin);
  return {};
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ..."
std::string driver_version() {
  const std::string line = first_line("/proc/driver/nvidia/version");
  const std::size_t begin = line.find_first_not_of(' ', line.find("  "));
  return line.empty() || begin == std::string::npos ? "" : line.substr(begin, line.find(' ', begin) - begin);
}

}  // namespace

Gpus find_gpus() {
  if (const Nvml nvml; nvml.works()) return nvml.list();
  Gpus gpus{.driver = driver_version(), .all = {}};
  std::error_code error;
  for (fs::directory_iterator next("/proc/driver/nvidia/gpus", error), end; !error && next != end;
       next.increment(error)) {
    const fs::path information = next->path() / "information";
    gpus.all.push_back({.name = value_in(information, "Model"),
                        .uuid = value_in(information, "GPU UUID"),
                        .bus = next->path().filename()});
  }
  return gpus;
}

std::string pci_address(std::string_view bus) {
  std::string address(bus);
  std::ranges::transform(address, address.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::size_t domain = 4;
  const std::size_t colon = address.find(':');
  // NVML writes eight digits of the domain, sysfs four.
  if (colon != std::string::npos && colon > domain) address.erase(0, colon - domain);
  return address;
}

std::optional<CpuSet> cpus_near(const Gpu& gpu) {
  const Result<CpuSet> near =
      CpuSet::parse(first_line(fs::path("/sys/bus/pci/devices") / pci_address(gpu.bus) / "local_cpulist"));
  return near && !near->empty() ? std::optional(*near) : std::nullopt;
}

}  // namespace isthmus
