#pragma once

#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "command/options.hpp"
#include "place/binding.hpp"
#include "place/gpus.hpp"

namespace isthmus::mpiexec {

inline constexpr const char* visible_devices = "CUDA_VISIBLE_DEVICES";

/// Deals the GPUs of this host out to its ranks (--gpu-bind).
class GpuBinding {
 public:
  /// Looks for GPUs, unless nothing is to be done. Those that are there: `gpus()`.
  explicit GpuBinding(const GpuBind& wanted);
  GpuBinding(const GpuBind& wanted, std::vector<Gpu> gpus);

  [[nodiscard]] const std::vector<Gpu>& gpus() const noexcept { return gpus_; }

  struct Choice {
    std::string visible;  ///< the rank's CUDA_VISIBLE_DEVICES
    std::string text;     ///< its GPU, in words
  };
  /// For the local rank `slot`, to be asked for in that order. `visible`: the CUDA_VISIBLE_DEVICES that the
  /// rank would have otherwise, if any; GPUs outside of it are not dealt out. Nothing if there is no GPU to
  /// be had; a sentence where a GPU that was named is not there.
  std::expected<std::optional<Choice>, std::string> choose(std::size_t slot, const Binding& place,
                                                           std::optional<std::string_view> visible);

 private:
  [[nodiscard]] const Gpu* closest(const std::vector<const Gpu*>& usable, const Binding& place) const;

  GpuBind wanted_;
  std::vector<Gpu> gpus_;                 ///< in the order of their PCI addresses
  std::map<std::string, unsigned> used_;  ///< by how many ranks, by UUID
};

}  // namespace isthmus::mpiexec
