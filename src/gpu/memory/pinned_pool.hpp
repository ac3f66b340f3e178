#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "gpu/driver/cuda_context.hpp"
#include "gpu/memory/pinned_range.hpp"

namespace isthmus {

class PinnedPool;

/// Memory of this process that is pinned. It is the process's own rather than the driver's, so that it stays
/// readable and writable when the program resets the device, though pinned no more.
class PinnedPages {
 public:
  static Result<std::unique_ptr<PinnedPages>> make(cuda::PrimaryContexts& contexts, cuda::Device device,
                                                   std::size_t bytes);
  PinnedPages(const PinnedPages&) = delete;
  PinnedPages& operator=(const PinnedPages&) = delete;
  ~PinnedPages();

  [[nodiscard]] std::span<std::byte> span() const noexcept { return pinned_.span(); }
  /// As `PinnedRange::is_over`.
  [[nodiscard]] bool is_over() const noexcept { return pinned_.is_over(); }

 private:
  explicit PinnedPages(PinnedRange pinned) : pinned_(std::move(pinned)) {}

  PinnedRange pinned_;
};

/// Pinned host memory on loan from a pool, which must outlive it.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept = default;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(pages_, other.pages_);
    return *this;
  }
  ~PinnedBuffer();

  [[nodiscard]] std::byte* data() const noexcept { return span().data(); }
  [[nodiscard]] std::size_t size() const noexcept { return span().size(); }
  [[nodiscard]] std::span<std::byte> span() const noexcept {
    return pages_ ? pages_->span() : std::span<std::byte>();
  }

 private:
  friend class PinnedPool;
  PinnedBuffer(PinnedPool& pool, std::unique_ptr<PinnedPages> pages)
      : pool_(&pool), pages_(std::move(pages)) {}

  PinnedPool* pool_ = nullptr;
  std::unique_ptr<PinnedPages> pages_;  ///< null once it is moved from
};

/// Staging buffers that the copy engines of all devices reach. Memory is pinned when it is first needed, and
/// kept until the end for the next who needs some: to unpin it waits for all that the GPU has to do, and a
/// kernel of the program may wait for the very message. One thread at a time.
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
  ~PinnedPool() = default;

  /// A buffer of at least so many bytes, or of the most that can be had, down to `least`; then an error that
  /// says what is short.
  Result<PinnedBuffer> take(std::size_t bytes);
  /// Of at least so many bytes, or an error.
  Result<PinnedBuffer> take_whole(std::size_t bytes);
  /// Bytes pinned, lent or not.
  [[nodiscard]] std::size_t pinned() const noexcept { return pinned_; }

 private:
  friend class PinnedBuffer;
  Result<PinnedBuffer> take(std::size_t wanted, std::size_t least);
  std::unique_ptr<PinnedPages> find(std::size_t bytes);
  void give_back(std::unique_ptr<PinnedPages> pages) noexcept;
  /// What a reset of the device has unpinned.
  void forget_lost() noexcept;

  cuda::PrimaryContexts& contexts_;
  const cuda::Device device_;
  const Limits limits_;
  std::vector<std::unique_ptr<PinnedPages>> free_;
  std::size_t pinned_ = 0;
  std::size_t living_ = 0;  ///< buffers, lent or not: `free_` has room for all
};

}  // namespace isthmus
