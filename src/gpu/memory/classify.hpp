#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "gpu/driver/cuda_driver.hpp"
#include "gpu/memory/buffer.hpp"
#include "gpu/memory/host_ranges.hpp"
#include "gpu/memory/page_location.hpp"

namespace isthmus {

/// Tells what an address points to. In a process that does not use CUDA everything is pageable; asking costs
/// 2 ns there, and 16 ns for mapped memory once something was loaded with dlopen (measured, test/device). One
/// thread at a time.
class Classifier {
 public:
  /// Buffers up to here are taken for pageable where `HostRanges` knows them, although they may be
  /// registered with CUDA: staging so few bytes through other pinned memory costs less than the 0.5 us that
  /// the driver takes to answer for host memory.
  static constexpr std::size_t small = 16384;

  explicit Classifier(CudaDriver& driver) : driver_(driver) {}

  /// Fails for device memory whose CUDA context has failed for good.
  Result<Buffer> classify(const void* address, std::size_t bytes) {
    if (bytes == 0 || (bytes <= small && host_.contains(address))) return pageable(address, bytes);
    const cuda::Functions* functions = driver_.find();
    if (!functions) return pageable(address, bytes);
    return ask(*functions, address, bytes);
  }

 private:
  /// What does not change while an allocation lives.
  struct Known {
    std::uint64_t buffer = 0, block = 0;  ///< CUDA's ids of the allocation and of its physical memory
    std::uint64_t allocation = 0;         ///< `allocation_id`
    MemoryKind kind = MemoryKind::pageable;
    bool is_own = true;
    cuda::Address base = 0;
    std::size_t room = 0;
    cuda::Device device = cuda::no_device;
    cuda::Context context = nullptr;
    cuda::Pool pool = nullptr;
  };
  struct Answer;

  static Buffer pageable(const void* address, std::size_t bytes) noexcept {
    auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(address));
    return {.data = data, .bytes = bytes, .base = data, .room = bytes};
  }
  Result<Buffer> ask(const cuda::Functions& functions, const void* address, std::size_t bytes);
  Known inspect(const cuda::Functions& functions, cuda::Address address, const Answer& answer) const;

  CudaDriver& driver_;
  HostRanges host_;
  PageLocator pages_;
  /// By buffer id modulo its size. Ids are never used again, so an entry is right or of no use.
  std::array<Known, 256> known_;
};

}  // namespace isthmus
