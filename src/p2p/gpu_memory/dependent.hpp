#pragma once

#include <cstdint>

namespace isthmus {

/// Something above `p2p/` that holds peers' mappings, streams or kernels by way of `GpuMessages`, and may
/// outlive it: communicators do.
class GpuDependent {
 public:
  virtual ~GpuDependent() = default;
  /// `GpuMessages` ends: nothing of it may be used any more.
  virtual void release() noexcept = 0;
  /// A peer has freed an allocation: whoever has it open is to let go of it.
  virtual void forget(std::uint64_t exporter, std::uint64_t allocation) noexcept = 0;
};

}  // namespace isthmus
