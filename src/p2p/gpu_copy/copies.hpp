#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/error.hpp"
#include "gpu/copy/engine.hpp"
#include "gpu/driver/cuda_driver.hpp"
#include "gpu/memory/classify.hpp"
#include "gpu/memory/device_pool.hpp"
#include "gpu/memory/pinned_pool.hpp"
#include "gpu/memory/pinned_range.hpp"
#include "p2p/gpu_copy/layouts.hpp"
#include "p2p/message/message.hpp"

namespace isthmus {

/// What the GPUs of this process copy, pack and combine, in memory that it reaches, and what a payload lies
/// in. Guarded by the engine's lock.
class GpuCopies {
 public:
  GpuCopies(CudaDriver& driver, const cuda::Functions& functions, bool may_warn)
      : contexts_(functions), classifier_(driver), layouts_(contexts_, classifier_, may_warn) {}
  GpuCopies(const GpuCopies&) = delete;
  GpuCopies& operator=(const GpuCopies&) = delete;
  ~GpuCopies() = default;

  [[nodiscard]] cuda::PrimaryContexts& contexts() noexcept { return contexts_; }
  /// The kernels of this rank's GPUs.
  [[nodiscard]] GpuKernels& kernels() noexcept { return layouts_.kernels(); }
  [[nodiscard]] GpuLayouts& layouts() noexcept { return layouts_; }
  /// Memory of GPUs for what is on its way.
  [[nodiscard]] DevicePool& device_pool() noexcept { return layouts_.pool(); }
  /// Pinned memory for collectives, by the device that copies from and to it.
  [[nodiscard]] PinnedPool& pinned_pool(cuda::Device device);
  /// Pins memory for copies by the GPU that a buffer lies on.
  Result<PinnedRange> pin(const Buffer& near, std::span<std::byte> memory) {
    return PinnedRange::pin(contexts_, near.device, memory);
  }

  // --- what a payload lies in

  /// As it is now. Managed memory may be elsewhere when it is looked at again, so that a transfer looks once,
  /// and all its parts go by what it has seen.
  Result<Buffer> look(const Payload& payload);
  /// The memory that a payload lies in if a GPU is to copy it, else nothing.
  Result<std::optional<Buffer>> find(const Payload& payload);
  /// Of the program's buffers, in GPU memory if there are such; `no_device` before the first.
  [[nodiscard]] cuda::Device last_device() const noexcept { return last_device_; }
  /// Before anything is done on a device: the program may have reset it.
  [[nodiscard]] Result<> check_alive(cuda::Device device) { return contexts_.check_alive(device); }
  /// What the program has freed meanwhile is no memory of a GPU any more: the driver would take it for the
  /// host's and fault, and a kernel would lose the context. 0.1 us.
  [[nodiscard]] Result<> check_still_there(const Buffer& near);

  // --- copies

  /// What copies from and to the memory of a device, but for `stage`.
  CopyEngine& engine_on(cuda::Device device);
  /// By the GPU that `near`, one side of the copy, lies on.
  Result<PendingCopy> start(const Buffer& near, const Payload& from, const Payload& to, std::uint64_t bytes);
  /// Whatever `work` puts on a stream of a device.
  Result<PendingCopy> start(cuda::Device device, const std::function<Result<>(cuda::Stream)>& work) {
    return engine_on(device).start(work);
  }
  /// Several by one call of the driver.
  Result<PendingCopy> start_together(cuda::Device device, std::span<const CopyPiece> pieces);
  /// Between payloads of equal packed size, by the GPU of `near`, one of both as it was seen; waits.
  Result<> copy(const Buffer& near, const Payload& from, const Payload& to);
  /// The same where one of both is in GPU memory, whichever; else false, with nothing done.
  Result<bool> try_copy(const Payload& from, const Payload& to);
  /// `inout = in OP inout` by a kernel; waits. False, with nothing done, unless both are in the memory of one
  /// GPU and there is such a kernel.
  Result<bool> try_reduce(const Op& op, const Datatype& type, const void* in, void* inout,
                          std::int64_t count);

  // --- parts of messages on their way

  /// Part of a buffer to or from memory of the host, or a window. Copies of one direction and GPU go in
  /// order, those of several directions at the same time.
  enum class Direction : std::uint8_t { to_host, from_host, to_window, from_window };
  Result<PendingCopy> stage(const Buffer& near, Direction direction, const CopyPiece& piece);
  /// Whether `stage_together` may have a buffer: kernels reach it, and it is still there.
  [[nodiscard]] bool can_stage_together(const Buffer& near);
  /// Pieces, each between such a buffer of one GPU and pinned memory or a window, as one copy: by a kernel up
  /// to `longest_by_kernel`, else by the GPU's engines. At most `most_together`.
  Result<PendingCopy> stage_together(cuda::Device device, Direction direction,
                                     std::span<const CopyPiece> pieces);
  static constexpr std::size_t most_together = std::min(GpuKernels::most_pieces, most_in_batch);
  static constexpr std::uint64_t longest_by_kernel = std::uint64_t{64} << 10U;
  /// Whether what is short had better wait for others: the engine has enough to do.
  [[nodiscard]] bool is_busy(cuda::Device device, Direction direction) {
    return staging_engine(device, direction).under_way() >= 2;
  }
  /// Copies that were started together with others.
  [[nodiscard]] std::uint64_t started_together() const noexcept { return started_together_; }

  /// Makes what copies of that GPU need of the driver and otherwise make when they first need it: streams,
  /// events, loaded kernels. Some milliseconds the first time.
  Result<> prepare(cuda::Device device);

 private:
  CopyEngine& staging_engine(cuda::Device device, Direction direction);

  cuda::PrimaryContexts contexts_;
  std::unordered_map<cuda::Device, CopyEngine> engines_;
  /// Of `stage`, by direction: a stream each.
  std::array<std::unordered_map<cuda::Device, CopyEngine>, 4> staging_engines_;
  std::unordered_map<cuda::Device, PinnedPool> pinned_;
  Classifier classifier_;
  GpuLayouts layouts_;
  cuda::Device last_device_ = cuda::no_device;
  std::uint64_t started_together_ = 0;
};

}  // namespace isthmus
