#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "gpu/driver/cuda_context.hpp"

namespace isthmus {

class DevicePool;

/// Memory of a device on loan from a pool. The pool may go first: it takes the memory with it.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(shelf_, other.shelf_);
    std::swap(piece_, other.piece_);
    return *this;
  }
  ~DeviceBuffer();

  [[nodiscard]] std::byte* data() const noexcept {
    return reinterpret_cast<std::byte*>(piece_.address);  // NOLINT(performance-no-int-to-ptr)
  }
  [[nodiscard]] std::size_t size() const noexcept { return piece_.bytes; }
  [[nodiscard]] cuda::Device device() const noexcept { return piece_.device; }
  /// Of the context that it lies in: a reset of the device takes it away.
  [[nodiscard]] cuda::ContextLife life() const noexcept { return piece_.life; }

 private:
  friend class DevicePool;
  struct Piece {
    cuda::Device device = cuda::no_device;
    cuda::Address address = 0;
    std::size_t bytes = 0;
    cuda::ContextLife life = 0;
  };
  /// What is there, lent or not.
  struct Shelf {
    std::vector<Piece> free;
    std::vector<Piece> all;
    std::size_t bytes = 0;
  };
  DeviceBuffer(const std::shared_ptr<Shelf>& shelf, const Piece& piece) : shelf_(shelf), piece_(piece) {}

  std::weak_ptr<Shelf> shelf_;
  Piece piece_;
};

/// Buffers in the memory of devices, as cudaMalloc makes it, which peers can open: each is made when it is
/// first needed and kept until the end, so that a peer opens it once. Sizes are powers of two. One thread at
/// a time.
class DevicePool {
 public:
  struct Limits {
    std::size_t least = std::size_t{64} << 10U;  ///< bytes of the smallest buffer
    std::size_t most = std::size_t{1} << 30U;    ///< bytes of all together
  };

  DevicePool(cuda::PrimaryContexts& contexts, Limits limits) : contexts_(contexts), limits_(limits) {}
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;
  ~DevicePool();

  /// A buffer of at least so many bytes; class `no_mem` where the limit or the device has not that much.
  Result<DeviceBuffer> take(cuda::Device device, std::size_t bytes);

 private:
  /// What a reset of the device has taken away.
  void forget_lost(cuda::Device device);

  cuda::PrimaryContexts& contexts_;
  const Limits limits_;
  std::shared_ptr<DeviceBuffer::Shelf> shelf_ = std::make_shared<DeviceBuffer::Shelf>();
};

}  // namespace isthmus
