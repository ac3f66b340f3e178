#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "memory/cuda_context.hpp"

namespace isthmus {

/// Host memory of somebody else's, pinned for copies by all GPUs while this lives: 0.3 ms a MiB the first
/// time (2 x H200). The memory must outlive it.
class PinnedRange {
 public:
  /// Through the context of that device. `memory` begins and ends at pages.
  static Result<PinnedRange> pin(cuda::PrimaryContexts& contexts, cuda::Device device,
                                 std::span<std::byte> memory);
  PinnedRange(PinnedRange&& other) noexcept
      : functions_(std::exchange(other.functions_, nullptr)),
        context_(other.context_),
        memory_(std::exchange(other.memory_, {})) {}
  PinnedRange& operator=(PinnedRange&& other) noexcept {
    std::swap(functions_, other.functions_);
    std::swap(context_, other.context_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~PinnedRange();

  [[nodiscard]] std::size_t size() const noexcept { return memory_.size(); }

 private:
  PinnedRange(const cuda::Functions& functions, cuda::Context context, std::span<std::byte> memory)
      : functions_(&functions), context_(context), memory_(memory) {}

  const cuda::Functions* functions_;  ///< null once it is moved from
  cuda::Context context_;
  std::span<std::byte> memory_;
};

}  // namespace isthmus
