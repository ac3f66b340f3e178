#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/error.hpp"
#include "gpu/driver/cuda_driver.hpp"

namespace isthmus {

/// Where memory that the library gives to a program lies.
enum class AllocationKind : std::uint8_t {
  host,
  cuda_device,   ///< on the GPU of the current context, else on the first; any process can open it
  cuda_host,     ///< pinned
  cuda_managed,  ///< wherever it is used
};

/// Memory for the program, of MPI_Alloc_mem, until this goes. CUDA must still be there then.
class Allocation {
 public:
  /// `alignment`: a power of two, a page or more; memory of GPUs is aligned to 2 MiB, other memory of CUDA to
  /// a page. `driver` is asked only for kinds of CUDA, and loaded and initialised if the program has not.
  static Result<std::unique_ptr<Allocation>> make(CudaDriver& driver, AllocationKind kind, std::size_t bytes,
                                                  std::size_t alignment);
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  virtual ~Allocation() = default;

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] virtual bool is_of_cuda() const noexcept { return false; }

 protected:
  Allocation() = default;
  void* data_ = nullptr;
};

}  // namespace isthmus
