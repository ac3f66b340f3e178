#include "gpu/memory/pinned_range.hpp"

#include <string>

#include "gpu/driver/cuda_error.hpp"

namespace isthmus {

Result<PinnedRange> PinnedRange::pin(cuda::PrimaryContexts& contexts, cuda::Device device,
                                     std::span<std::byte> memory) {
  auto context = contexts.of(device);
  if (!context) return std::unexpected(std::move(context).error());
  const cuda::Functions& functions = contexts.functions();
  const cuda::ContextScope scope(functions, *context);
  const cuda::Status status = functions.host_register(memory.data(), memory.size(), cuda::host_portable);
  if (status != cuda::Status::success)
    return cuda::fail(functions, status,
                      "pin " + std::to_string(memory.size() >> 10U) + " KiB of host memory");
  return PinnedRange(contexts, device, memory);
}

PinnedRange::~PinnedRange() {
  if (!contexts_ || !contexts_->is_alive(device_, life_)) return;
  const auto context = contexts_->of(device_);
  const cuda::Functions& functions = contexts_->functions();
  const cuda::ContextScope scope(functions, *context);
  functions.host_unregister(memory_.data());
}

}  // namespace isthmus
