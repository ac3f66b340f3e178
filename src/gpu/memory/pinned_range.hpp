#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "gpu/driver/cuda_context.hpp"

namespace isthmus {

/// Host memory of somebody else's, pinned for copies by all GPUs while this lives: 0.3 ms a MiB the first
/// time (2 x H200). The memory must outlive it, and is pinned no more once the program has reset the device.
class PinnedRange {
 public:
  /// Through the context of that device. `memory` begins and ends at pages.
  static Result<PinnedRange> pin(cuda::PrimaryContexts& contexts, cuda::Device device,
                                 std::span<std::byte> memory);
  PinnedRange(PinnedRange&& other) noexcept
      : contexts_(std::exchange(other.contexts_, nullptr)),
        device_(other.device_),
        life_(other.life_),
        memory_(std::exchange(other.memory_, {})) {}
  PinnedRange& operator=(PinnedRange&& other) noexcept {
    std::swap(contexts_, other.contexts_);
    std::swap(device_, other.device_);
    std::swap(life_, other.life_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~PinnedRange();

  [[nodiscard]] std::span<std::byte> span() const noexcept { return memory_; }
  [[nodiscard]] std::size_t size() const noexcept { return memory_.size(); }
  /// Whether a reset of the device has ended it, as far as `contexts` knows.
  [[nodiscard]] bool is_over() const noexcept { return contexts_->life(device_) != life_; }

 private:
  PinnedRange(cuda::PrimaryContexts& contexts, cuda::Device device, std::span<std::byte> memory)
      : contexts_(&contexts), device_(device), life_(contexts.life(device)), memory_(memory) {}

  cuda::PrimaryContexts* contexts_;  ///< null once it is moved from
  cuda::Device device_;
  cuda::ContextLife life_;
  std::span<std::byte> memory_;
};

}  // namespace isthmus
