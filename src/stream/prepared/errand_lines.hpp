#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.hpp"
#include "gpu/driver/cuda_context.hpp"
#include "gpu/memory/pinned_pool.hpp"

namespace isthmus::stream {

/// By which streams and a port's carrier tell each other of something that the carrier does, in a line of
/// pinned memory. A stream writes 0 to `done`, a number to `go` (its bytes) or `tell` (its notification), and
/// waits until `done` is 1; the carrier sets `go` and `tell` back when it has seen them. What is written
/// never counts up, so it is right each time that a captured graph is launched. The numbers of one post give
/// its order, from 1.
struct alignas(64) ErrandWords {
  std::uint32_t go = 0;
  std::uint32_t tell = 0;
  std::uint32_t done = 0;
  std::uint32_t passed = 0;  ///< 1: the stream needs the line no more
};
/// In `go`, beside the number: the notification is told as well, right behind the bytes.
inline constexpr std::uint32_t go_and_tell = 1U << 31U;

class ErrandLines {
 public:
  static constexpr std::size_t count = 2048;

  static Result<std::shared_ptr<ErrandLines>> make(cuda::PrimaryContexts& contexts, cuda::Device device,
                                                   cuda::Context context);

  [[nodiscard]] std::atomic_ref<std::uint32_t> word(std::size_t line,
                                                    std::uint32_t ErrandWords::* which) const noexcept {
    return std::atomic_ref(first()[line].*which);
  }
  /// As the GPU names it.
  [[nodiscard]] cuda::Address address(std::size_t line, std::uint32_t ErrandWords::* which) const noexcept {
    const auto offset = reinterpret_cast<const std::byte*>(&(first()[line].*which)) - pages_->span().data();
    return address_ + static_cast<cuda::Address>(offset);
  }

  /// Nobody does what streams ask for any more.
  void end() noexcept { has_ended_.store(true, std::memory_order_release); }
  /// Then, lets go of all streams that wait for `done`.
  void release_streams() const noexcept;

 private:
  ErrandLines(std::unique_ptr<PinnedPages> pages, cuda::Address address)
      : pages_(std::move(pages)), address_(address) {}
  [[nodiscard]] ErrandWords* first() const noexcept {
    return reinterpret_cast<ErrandWords*>(pages_->span().data());
  }

  std::unique_ptr<PinnedPages> pages_;
  cuda::Address address_;
  std::atomic<bool> has_ended_{false};
};

}  // namespace isthmus::stream
