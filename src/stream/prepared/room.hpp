#pragma once

#include <cstddef>
#include <memory>

#include "base/error.hpp"
#include "gpu/driver/cuda_context.hpp"

namespace isthmus::stream {

/// Lines in memory of a port's GPU, all 0 at first: words that kernels write and wait for, and counters.
class Room {
 public:
  static constexpr std::size_t line = 64;

  /// `contexts` must outlive it.
  static Result<std::unique_ptr<Room>> make(cuda::PrimaryContexts& contexts, cuda::Device device,
                                            cuda::Context context, std::size_t lines);
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  /// Gives the memory back, unless the program has reset the device. May wait for all that the GPU has to do.
  ~Room();

  [[nodiscard]] cuda::Address address(std::size_t i = 0) const noexcept { return address_ + i * line; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  Room(cuda::PrimaryContexts& contexts, cuda::Device device, cuda::Context context, std::size_t bytes)
      : contexts_(contexts),
        device_(device),
        context_(context),
        life_(contexts.life(device)),
        bytes_(bytes) {}

  cuda::PrimaryContexts& contexts_;
  const cuda::Device device_;
  cuda::ContextObject* const context_;
  const cuda::ContextLife life_;
  const std::size_t bytes_;
  cuda::Address address_ = 0;
};

}  // namespace isthmus::stream
