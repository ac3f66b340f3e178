#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "memory/cuda_context.hpp"

namespace isthmus {

class PinnedPool;

/// Pinned host memory on loan from a pool, which must outlive it.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept : pool_(other.pool_), memory_(other.memory_) {
    other.pool_ = nullptr;
    other.memory_ = {};
  }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~PinnedBuffer();

  [[nodiscard]] std::byte* data() const noexcept { return memory_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return memory_.size(); }
  [[nodiscard]] std::span<std::byte> span() const noexcept { return memory_; }

 private:
  friend class PinnedPool;
  PinnedBuffer(PinnedPool& pool, std::span<std::byte> memory) : pool_(&pool), memory_(memory) {}

  PinnedPool* pool_ = nullptr;
  std::span<std::byte> memory_;
};

/// Staging buffers that the copy engines of all devices reach. Memory is pinned when it is first needed, and
/// kept for the next who needs some. One thread at a time.
class PinnedPool {
 public:
  struct Limits {
    std::size_t least = std::size_t{64} << 10U;  ///< bytes of the smallest buffer
    std::size_t most = std::size_t{64} << 20U;   ///< bytes of all together
  };

  /// Pins through the context of that device.
  PinnedPool(cuda::PrimaryContexts& contexts, cuda::Device device, Limits limits);
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;
  ~PinnedPool();

  /// A buffer of at least so many bytes, or of the most that can be had, down to `least`; then an error that
  /// says what is short.
  Result<PinnedBuffer> take(std::size_t bytes);
  /// Bytes pinned, lent or not.
  [[nodiscard]] std::size_t pinned() const noexcept { return pinned_; }

 private:
  friend class PinnedBuffer;
  std::span<std::byte> find(std::size_t bytes);
  Result<std::span<std::byte>> pin(std::size_t bytes);
  void unpin(std::span<std::byte> memory) noexcept;
  void give_back(std::span<std::byte> memory) noexcept;

  cuda::PrimaryContexts& contexts_;
  const cuda::Device device_;
  const Limits limits_;
  std::vector<std::span<std::byte>> free_;
  std::size_t pinned_ = 0;
};

}  // namespace isthmus
