#include "memory/pinned_pool.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "memory/cuda_error.hpp"

namespace isthmus {

using cuda::Status;

PinnedBuffer::~PinnedBuffer() {
  if (pool_) pool_->give_back(memory_);
}

PinnedPool::PinnedPool(cuda::PrimaryContexts& contexts, cuda::Device device, Limits limits)
    : contexts_(contexts), device_(device), limits_(limits) {}

PinnedPool::~PinnedPool() {
  for (const auto memory : free_)
    unpin(memory);
}

Result<PinnedBuffer> PinnedPool::take(std::size_t bytes) {
  const std::size_t wanted = std::bit_ceil(std::clamp(bytes, limits_.least, limits_.most));
  std::string reason = "the limit of " + std::to_string(limits_.most >> 20U) + " MiB is in use";
  for (std::size_t size = wanted; size >= limits_.least; size /= 2) {
    if (const auto memory = find(size); !memory.empty()) return PinnedBuffer(*this, memory);
    while (pinned_ + size > limits_.most && !free_.empty()) {
      unpin(free_.back());  // all that are free are smaller than this
      free_.pop_back();
    }
    if (pinned_ + size > limits_.most) continue;
    auto memory = pin(size);
    if (memory) return PinnedBuffer(*this, *memory);
    if (memory.error().error_class() != ErrorClass::no_mem) return std::unexpected(std::move(memory).error());
    reason = memory.error().text();
  }
  return fail(ErrorClass::no_mem, "no pinned host memory for copies from and to GPUs, not even " +
                                      std::to_string(limits_.least >> 10U) + " KiB: " + reason);
}

std::span<std::byte> PinnedPool::find(std::size_t bytes) {
  // The smallest that is large enough.
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it)
    if (it->size() >= bytes && (best == free_.end() || it->size() < best->size())) best = it;
  if (best == free_.end()) return {};
  const auto memory = *best;
  free_.erase(best);
  return memory;
}

Result<std::span<std::byte>> PinnedPool::pin(std::size_t bytes) {
  auto context = contexts_.of(device_);
  if (!context) return std::unexpected(std::move(context).error());
  const cuda::Functions& functions = contexts_.functions();
  const cuda::ContextScope scope(functions, *context);
  void* memory = nullptr;
  const Status status = functions.host_allocate(&memory, bytes, cuda::host_portable);
  if (status != Status::success) return cuda::fail(functions, status, "pin host memory");
  pinned_ += bytes;
  return std::span(static_cast<std::byte*>(memory), bytes);
}

void PinnedPool::unpin(std::span<std::byte> memory) noexcept {
  const auto context = contexts_.of(device_);
  const cuda::ContextScope scope(contexts_.functions(), context ? *context : nullptr);
  contexts_.functions().host_free(memory.data());
  pinned_ -= memory.size();
}

void PinnedPool::give_back(std::span<std::byte> memory) noexcept {
  free_.push_back(memory);
}

}  // namespace isthmus
