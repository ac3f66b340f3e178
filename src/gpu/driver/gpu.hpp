#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "gpu/driver/cuda_api.hpp"

namespace isthmus {

/// A GPU that this process sees. Ordinals differ between processes (CUDA_VISIBLE_DEVICES), UUIDs do not.
struct Gpu {
  cuda::Device ordinal = 0;
  cuda::Uuid uuid;
  std::string name;
  std::string pci;  ///< "0000:1b:00.0"
  int numa = -1;    ///< the nearest NUMA node, -1 where that is not known
};

/// How one GPU reaches another's memory. What has native atomics is NVLink.
enum class PeerLink : std::uint8_t { none, pcie, nvlink };

std::string_view name_of(PeerLink link);
/// "GPU-1b2c3d4e-...", as nvidia-smi and CUDA_VISIBLE_DEVICES have it.
std::string to_string(const cuda::Uuid& uuid);

/// The GPUs that this process sees, in the order of their ordinals.
class GpuList {
 public:
  static Result<GpuList> read(const cuda::Functions& functions);

  [[nodiscard]] const std::vector<Gpu>& gpus() const noexcept { return gpus_; }
  [[nodiscard]] std::optional<cuda::Device> find(const cuda::Uuid& uuid) const noexcept;
  /// Between two ordinals; from a GPU to itself it is `nvlink`.
  [[nodiscard]] PeerLink link(cuda::Device from, cuda::Device to) const noexcept;

 private:
  std::vector<Gpu> gpus_;
  std::vector<PeerLink> links_;  ///< a row for each `from`
};

}  // namespace isthmus
