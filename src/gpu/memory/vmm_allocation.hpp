#pragma once

#include <cstddef>
#include <memory>

#include "base/error.hpp"
#include "gpu/driver/cuda_context.hpp"
#include "gpu/driver/gpu.hpp"

namespace isthmus {

/// Device memory of the library's own making, for MPI_Alloc_mem: of the kind that any other process can open,
/// whatever its process id, and that the GPUs which reach the device have access to.
class VmmAllocation {
 public:
  /// At least so many bytes; a whole number of pages of 2 MiB is taken.
  static Result<std::unique_ptr<VmmAllocation>> make(cuda::PrimaryContexts& contexts, const GpuList& gpus,
                                                     cuda::Device device, std::size_t bytes);
  VmmAllocation(const VmmAllocation&) = delete;
  VmmAllocation& operator=(const VmmAllocation&) = delete;
  ~VmmAllocation();

  [[nodiscard]] std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(address_); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }

 private:
  VmmAllocation(const cuda::Functions& functions, cuda::Context context)
      : functions_(functions), context_(context) {}
  Result<> map(const GpuList& gpus, cuda::Device device, std::size_t bytes);

  const cuda::Functions& functions_;
  cuda::Context context_;
  cuda::Address address_ = 0;
  std::size_t bytes_ = 0;
  cuda::Physical physical_ = 0;
  bool is_mapped_ = false;
};

}  // namespace isthmus
