#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/driver/cuda_types.hpp"

namespace isthmus::emulated {

enum class Link { none, pcie, nvlink };

/// The emulated GPUs, and those of them that this process sees. Fixed once made.
class Machine {
 public:
  /// From EMULATED_CUDA_DEVICES, EMULATED_CUDA_LINKS and CUDA_VISIBLE_DEVICES.
  static Machine from_environment();

  [[nodiscard]] int visible() const noexcept { return static_cast<int>(visible_.size()); }
  [[nodiscard]] bool has(cuda::Device device) const noexcept { return device >= 0 && device < visible(); }
  /// The number on the machine of a device that the process sees.
  [[nodiscard]] unsigned physical(cuda::Device device) const {
    return visible_[static_cast<std::size_t>(device)];
  }
  /// The ordinal here of a device of the machine, nothing if this process does not see it.
  [[nodiscard]] std::optional<cuda::Device> ordinal(unsigned physical) const;
  [[nodiscard]] Link link(unsigned from, unsigned to) const;

  static cuda::Uuid uuid(unsigned physical);
  /// "GPU-...", as in CUDA_VISIBLE_DEVICES.
  static std::string uuid_text(unsigned physical);

 private:
  struct Pair {
    unsigned a, b;
    Link link;
  };
  unsigned devices_ = 2;
  std::vector<unsigned> visible_;
  Link link_ = Link::nvlink;
  std::vector<Pair> pairs_;
};

}  // namespace isthmus::emulated
