#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "gpu/driver/cuda_context.hpp"

namespace isthmus {

/// Work for one GPU in order: a stream of the library's own, and marks that tell how far it is. In no order
/// with the program's streams, nor with the default one. The device's primary context is to be current
/// wherever something is put on it. One thread at a time.
class GpuQueue {
 public:
  static Result<std::unique_ptr<GpuQueue>> make(const cuda::Functions& functions);
  GpuQueue(const GpuQueue&) = delete;
  GpuQueue& operator=(const GpuQueue&) = delete;
  ~GpuQueue();

  [[nodiscard]] cuda::Stream stream() const noexcept { return stream_; }
  /// Between any two kinds of memory that the GPU reaches.
  Result<> copy(std::byte* to, const std::byte* from, std::size_t bytes);
  /// Number of a mark behind everything that is on the queue now, from 0.
  Result<std::size_t> mark();
  /// Whether everything before a mark is done; fails if the GPU has.
  [[nodiscard]] Result<bool> has_passed(std::size_t mark) const;
  /// Waits until all is done; after an error, because memory must not be freed while it is being copied.
  void drain() noexcept;
  /// The program has reset the device: there is nothing left to be destroyed.
  void abandon() noexcept { stream_ = nullptr; }
  /// Marks begin at 0 again. Nothing may be waiting for one.
  void forget_marks() noexcept { marks_ = 0; }

 private:
  GpuQueue(const cuda::Functions& functions, cuda::Stream stream) : functions_(functions), stream_(stream) {}

  const cuda::Functions& functions_;
  cuda::Stream stream_;
  std::vector<cuda::Event> events_;
  std::size_t marks_ = 0;
};

}  // namespace isthmus
