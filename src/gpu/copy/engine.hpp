#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "gpu/copy/batch.hpp"
#include "gpu/driver/cuda_context.hpp"

namespace isthmus {

class CopyEngine;

/// A copy that was started and may still be under way. Must not outlive its engine.
class PendingCopy {
 public:
  PendingCopy() = default;
  PendingCopy(PendingCopy&& other) noexcept
      : engine_(std::exchange(other.engine_, nullptr)), lane_(other.lane_), number_(other.number_) {}
  PendingCopy& operator=(PendingCopy&& other) noexcept {
    std::swap(engine_, other.engine_);
    std::swap(lane_, other.lane_);
    std::swap(number_, other.number_);
    return *this;
  }
  /// Waits, so that nobody frees memory that is still being copied.
  ~PendingCopy();

  /// Whether all of it has arrived; fails if the GPU has. The driver is not asked again once it has said so.
  [[nodiscard]] Result<bool> is_done() const;
  [[nodiscard]] Result<> wait() const;
  /// Another that stands for the same copy.
  [[nodiscard]] PendingCopy another() const noexcept;
  /// Names the stream that it is on: copies of one stream end in the order in which they were started. Null
  /// once it is known to be done.
  [[nodiscard]] const void* stream() const noexcept;

 private:
  friend class CopyEngine;
  PendingCopy(CopyEngine& engine, std::size_t lane, std::uint64_t number)
      : engine_(&engine), lane_(lane), number_(number) {}

  mutable CopyEngine* engine_ = nullptr;  ///< null once it is done, or moved from
  std::size_t lane_ = 0;
  std::uint64_t number_ = 0;
};

/// Copies by the engines of one GPU, on streams of its own: they are in no order with the program's streams,
/// nor with the default one, and part of no capture. Made when first used, and anew after a reset of the
/// device; copies that were under way at a reset end with an error. One thread at a time.
class CopyEngine {
 public:
  /// Of `fail_after_reset`.
  static constexpr std::string_view during_copy = "while a message was copied from or to its memory";

  /// Copies of up to `together` bytes may share an event, and be known to be done when all of them are. To
  /// ask an event that has passed takes 1.6 us, a third of the time of a copy of 1 MiB (2 x H200).
  CopyEngine(cuda::PrimaryContexts& contexts, cuda::Device device, std::size_t streams = 2,
             std::size_t together = 0)
      : contexts_(contexts), device_(device), wanted_streams_(streams), together_(together) {}
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
  /// All of the pieces as one copy, by `copy_batch`.
  Result<PendingCopy> start_together(std::span<const CopyPiece> pieces);
  /// Whatever `work` puts on the stream that it is given. If it fails, what it had put there is waited for.
  Result<PendingCopy> start(const std::function<Result<>(cuda::Stream)>& work) { return put(unknown, work); }
  /// Makes the streams, and events for `copies` that are under way at once, which copies make otherwise when
  /// they first need them: where a launch of the program's waits for room in its stream, the driver lets
  /// nobody make any (H200, driver 580).
  Result<> prepare(std::size_t copies);
  [[nodiscard]] cuda::Device device() const noexcept { return device_; }
  /// How many calls have started what is not known to be done.
  [[nodiscard]] std::size_t under_way() const noexcept;

 private:
  friend class PendingCopy;
  /// An event behind all copies of a stream up to one.
  struct Mark {
    cuda::Event event;
    std::uint64_t last;
    std::size_t bytes;  ///< of the copies since the mark before
  };
  /// Copies are numbered from 1 in the order in which they are started.
  struct Lane {
    cuda::Stream stream = nullptr;
    std::uint64_t started = 0;
    std::uint64_t marked = 0;
    std::uint64_t finished = 0;
    std::size_t unmarked_bytes = 0;
    std::size_t marked_bytes = 0;  ///< of copies that are not known to be done
    std::deque<Mark> marks{};
    /// Copies that resets of the device have ended, and those between them.
    std::uint64_t first_lost = 0, last_lost = 0;
  };
  using Work = std::function<Result<>(cuda::Stream)>;
  static constexpr std::size_t unknown = SIZE_MAX;

  Result<> open();
  [[nodiscard]] bool is_open() const noexcept;
  /// Lets go of what a reset of the device has ended.
  void abandon() noexcept;
  /// The error of a copy that a reset has ended.
  [[nodiscard]] Result<> check_not_lost(const Lane& lane, std::uint64_t number);
  Result<PendingCopy> put(std::size_t bytes, const Work& work);
  Result<cuda::Event> take_event();
  Result<cuda::Event> make_event();
  /// In the engine's context.
  Result<> mark(Lane& lane);
  Result<> mark_all(Lane& lane);
  void pass(Lane& lane);
  Result<bool> is_done(Lane& lane, std::uint64_t number);
  Result<> wait(Lane& lane, std::uint64_t number);
  /// As `wait`, for who takes no answer. Needs no memory.
  void settle(Lane& lane, std::uint64_t number) noexcept;
  /// The first stream that has not much under way, or the one that has least: short copies gain nothing from
  /// a second stream (64 of 1 MiB to a peer at 206 GB/s with one, two or four of them), each of which is
  /// asked by itself, and a copy alone begins 0.4 us sooner on the same stream as before (2 x H200).
  [[nodiscard]] std::size_t quietest() const noexcept;

  cuda::PrimaryContexts& contexts_;
  const cuda::Device device_;
  const std::size_t wanted_streams_;
  const std::size_t together_;
  cuda::Context context_ = nullptr;
  cuda::ContextLife life_ = 0;
  std::vector<Lane> lanes_;
  std::vector<cuda::Event> events_;  ///< free ones; it has room for all that there are
  std::size_t events_made_ = 0;
};

}  // namespace isthmus
