#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "gpu/driver/cuda_context.hpp"
#include "gpu/memory/pinned_range.hpp"

namespace isthmus::stream {

/// Memory of one process of a port, mapped and pinned in all of them: words that streams and processors write
/// and wait for, a line of the cache each. Streams write to it over the PCIe, and the processor can let a
/// stream go on that waits for one.
class Lines {
 public:
  static constexpr std::size_t line = 64;

  /// Pins through the context of `device`. The file stays the caller's.
  static Result<Lines> map(cuda::PrimaryContexts& contexts, cuda::Device device, int file, std::size_t count);
  Lines(Lines&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        bytes_(other.bytes_),
        address_(other.address_),
        pinned_(std::move(other.pinned_)) {}
  Lines& operator=(Lines&&) = delete;
  ~Lines();

  [[nodiscard]] std::atomic_ref<std::uint32_t> word(std::size_t i) const noexcept {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory_ + i * line));
  }
  /// As the GPU names it.
  [[nodiscard]] cuda::Address address(std::size_t i) const noexcept { return address_ + i * line; }

 private:
  Lines(std::byte* memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}

  std::byte* memory_;
  std::size_t bytes_;
  cuda::Address address_ = 0;
  std::optional<PinnedRange> pinned_;
};

}  // namespace isthmus::stream
