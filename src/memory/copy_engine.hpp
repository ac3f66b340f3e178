#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "memory/cuda_context.hpp"

namespace isthmus {

class CopyEngine;

/// A copy that was started and may still be under way. Must not outlive its engine.
class PendingCopy {
 public:
  PendingCopy() = default;
  PendingCopy(PendingCopy&& other) noexcept
      : engine_(std::exchange(other.engine_, nullptr)), event_(other.event_), stream_(other.stream_) {}
  PendingCopy& operator=(PendingCopy&& other) noexcept {
    std::swap(engine_, other.engine_);
    std::swap(event_, other.event_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  /// Waits, so that nobody frees memory that is still being copied.
  ~PendingCopy();

  /// Whether all of it has arrived; fails if the GPU has. The driver is not asked again once it has said so:
  /// that takes 1.2 us (H200).
  [[nodiscard]] Result<bool> is_done() const;
  [[nodiscard]] Result<> wait() const;

 private:
  friend class CopyEngine;
  PendingCopy(CopyEngine& engine, cuda::Event event, std::size_t stream)
      : engine_(&engine), event_(event), stream_(stream) {}
  void let_go() const noexcept;

  mutable CopyEngine* engine_ = nullptr;  ///< null once it is done, or moved from
  cuda::Event event_ = nullptr;
  std::size_t stream_ = 0;
};

/// A run of bytes to be copied between any two kinds of memory that a GPU reaches.
struct CopyPiece {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes;
};

/// Copies by the engines of one GPU, on streams of its own: they are in no order with the program's streams,
/// nor with the default one, and part of no capture. Made when first used. One thread at a time.
class CopyEngine {
 public:
  CopyEngine(cuda::PrimaryContexts& contexts, cuda::Device device, std::size_t streams = 2)
      : contexts_(contexts), device_(device), wanted_streams_(streams) {}
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;
  ~CopyEngine();

  /// Between any two kinds of memory that this GPU reaches. From and to pageable memory it is done when this
  /// returns. Copies that follow one another may overtake each other.
  Result<PendingCopy> start(std::byte* to, const std::byte* from, std::size_t bytes) {
    const CopyPiece piece{to, from, bytes};
    return start({&piece, 1});
  }
  /// All of the pieces as one copy.
  Result<PendingCopy> start(std::span<const CopyPiece> pieces);
  /// Whatever `work` puts on the stream that it is given. If it fails, what it had put there is waited for.
  Result<PendingCopy> start(const std::function<Result<>(cuda::Stream)>& work);
  [[nodiscard]] cuda::Device device() const noexcept { return device_; }

 private:
  friend class PendingCopy;
  Result<> open();
  Result<cuda::Event> take_event();
  /// The stream with the least under way: a copy by itself always takes the same one, which a GPU begins 0.4
  /// us sooner than one by turns (2 x H200).
  [[nodiscard]] std::size_t quietest() const noexcept;

  cuda::PrimaryContexts& contexts_;
  const cuda::Device device_;
  const std::size_t wanted_streams_;
  cuda::Context context_ = nullptr;
  std::vector<cuda::Stream> streams_;
  std::vector<std::size_t> under_way_;  ///< copies on each
  std::vector<cuda::Event> events_;     ///< free ones
};

}  // namespace isthmus
