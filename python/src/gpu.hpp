#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "python.hpp"

/// What the package itself does with memory of GPUs: it asks what a pointer is, waits for streams, and makes
/// arrays where no other package does. Messages are the library's. By the CUDA driver, which is looked for at
/// run time.
namespace isthmus::python {

/// Throws ValueError where not all of `bytes` bytes, 1 or more, are memory that the driver knows: memory that
/// has been freed, or less than is said.
void need_gpu_memory(std::uintptr_t address, std::size_t bytes);
/// Waits for the work of a stream, as `__cuda_array_interface__` names it: 1 is the legacy default stream, 2
/// that of the thread. Throws ValueError for 0, which says nothing, and RuntimeError.
void synchronize_stream(std::uintptr_t stream, std::uintptr_t address);
/// Copies, from or to memory of the host too, and waits.
void copy_of_gpu(std::uintptr_t to, std::uintptr_t from, std::size_t bytes);

/// Memory of the current GPU; of the first one, if the program has chosen none. Freed with the object.
class GpuMemory {
 public:
  /// Throws MemoryError, or RuntimeError where there is no GPU.
  explicit GpuMemory(std::size_t bytes);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  [[nodiscard]] std::uintptr_t address() const noexcept { return address_; }
  [[nodiscard]] int device() const noexcept { return device_; }

 private:
  void* context_ = nullptr;
  std::uintptr_t address_ = 0;
  int device_ = 0;
};

/// What `array.__dlpack__()` gives. `owner` keeps the memory.
struct DlpackView {
  std::uintptr_t address = 0;
  std::vector<std::uint64_t> extents;
  std::vector<std::int64_t> strides;  ///< in bytes; empty: contiguous
  std::string type;                   ///< as NumPy writes it: "<f8"
  nb::object owner;
};
/// Takes the capsule over. Throws TypeError for elements that NumPy has not.
DlpackView take_dlpack(nb::object capsule);
/// A capsule for `__dlpack__`, over memory of GPU `device` that `owner` keeps. `type` as above.
nb::object make_dlpack(nb::object owner, std::uintptr_t address, const std::vector<std::int64_t>& extents,
                       const std::string& type, int device);

}  // namespace isthmus::python
